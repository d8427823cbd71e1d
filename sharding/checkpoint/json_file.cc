#include "sharding/checkpoint/json_file.h"

#include <functional>
#include <set>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/byte_source.h"
#include "sharding/checkpoint/error_text.h"

namespace trireme::sharding {
namespace {

using Json = nlohmann::json;

// Remembers the keys of the objects that are open, and the first key that came twice.
class DuplicateFinder {
 public:
  bool operator()(int /*depth*/, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        open_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        open_.pop_back();
        break;
      case Json::parse_event_t::key:
        Add(parsed.get_ref<const std::string&>());
        break;
      default:
        break;
    }
    return true;
  }

  const std::string& duplicate() const { return duplicate_; }

 private:
  void Add(const std::string& key) {
    if (!open_.back().insert(key).second && duplicate_.empty()) duplicate_ = Quoted(key);
  }

  std::vector<std::set<std::string>> open_;
  std::string duplicate_;
};

}  // namespace

absl::StatusOr<Json> ParseJsonObject(std::string_view text) {
  // nlohmann's parser takes a zero byte for the end and would not look at what follows.
  if (text.find('\0') != std::string_view::npos)
    return absl::InvalidArgumentError("not valid JSON: it has a zero byte");
  DuplicateFinder finder;
  Json parsed;
  try {
    parsed = Json::parse(text, std::ref(finder));
  } catch (const Json::exception& problem) {
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON: ", Quoted(problem.what())));
  }
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("holds a JSON ", parsed.type_name(), ", expected an object"));
  }
  if (!finder.duplicate().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("key ", finder.duplicate(), " comes twice"));
  }
  return parsed;
}

absl::StatusOr<Json> ReadJsonObject(const std::filesystem::path& path, std::int64_t max_bytes,
                                    std::int64_t& bytes_read) {
  ASSIGN_OR_RETURN(const auto file, FileBytes::Open(path));
  if (file->size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file->name(), " has ", file->size(), " bytes, at most ", max_bytes, " are read"));
  }
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  bytes_read += file->bytes_read();
  absl::StatusOr<Json> parsed = ParseJsonObject(text);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat(file->name(), ": ", parsed.status().message()));
  return parsed;
}

}  // namespace trireme::sharding
