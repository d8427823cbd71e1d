#include "sharding/checkpoint/hf_folder.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/error_text.h"
#include "sharding/checkpoint/json_file.h"
#include "sharding/checkpoint/safetensors.h"

namespace trireme::sharding {
namespace {

using WeightMap = std::map<std::string, std::string>;

constexpr std::int64_t kMaxConfigBytes = std::int64_t{1} << 20;
constexpr std::int64_t kMaxIndexBytes = std::int64_t{32} << 20;
constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

bool StaysInFolder(const std::string& file) {
  return !file.empty() && file != "." && file != ".." && file.find('/') == std::string::npos &&
         file.find('\0') == std::string::npos;
}

absl::Status ReadConfigs(const std::filesystem::path& folder, CheckpointContents& contents) {
  ASSIGN_OR_RETURN(contents.config,
                   ReadJsonObject(folder / "config.json", kMaxConfigBytes, contents.header_bytes_read));
  auto generation = ReadJsonObject(folder / "generation_config.json", kMaxConfigBytes, contents.header_bytes_read);
  if (absl::IsNotFound(generation.status())) return absl::OkStatus();
  RETURN_IF_ERROR(generation.status());
  contents.generation_config = *std::move(generation);
  return absl::OkStatus();
}

// Opens one file and adds its tensors; none may have been seen before.
absl::Status AddFile(const std::filesystem::path& path, CheckpointContents& contents) {
  ASSIGN_OR_RETURN(auto file, FileBytes::Open(path));
  ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensors(*file));
  contents.header_bytes_read += file->bytes_read();
  for (TensorInfo& tensor : header.tensors) {
    tensor.file_index = static_cast<int>(contents.files.size());
    const std::string name = tensor.name;
    const auto [at, is_new] = contents.tensors.try_emplace(name, std::move(tensor));
    if (is_new) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(name), " lies in two files: ",
                     contents.files[static_cast<std::size_t>(at->second.file_index)]->name(), " and ", file->name()));
  }
  contents.files.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status AddShards(const std::filesystem::path& folder, const WeightMap& weight_map, CheckpointContents& contents) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  for (const std::string& name : names) RETURN_IF_ERROR(AddFile(folder / name, contents));
  return absl::OkStatus();
}

// Both directions: what the index lists is where it says, and nothing else is there.
absl::Status CheckIndexAgrees(const WeightMap& weight_map, const CheckpointContents& contents) {
  for (const auto& [name, file] : weight_map) {
    const auto found = contents.tensors.find(name);
    if (found == contents.tensors.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(kIndexFile, " says that tensor ", Quoted(name), " lies in ", Quoted(file), ", it does not"));
    }
    const std::string& actual = contents.files[static_cast<std::size_t>(found->second.file_index)]->name();
    if (std::filesystem::path(actual).filename() != file) {
      return absl::InvalidArgumentError(absl::StrCat(kIndexFile, " says that tensor ", Quoted(name), " lies in ",
                                                     Quoted(file), ", it lies in ", actual));
    }
  }
  for (const auto& [name, tensor] : contents.tensors) {
    if (weight_map.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), " of ",
                                                   contents.files[static_cast<std::size_t>(tensor.file_index)]->name(),
                                                   " is not listed in ", kIndexFile));
  }
  return absl::OkStatus();
}

absl::Status AddIndexedFiles(const std::filesystem::path& folder, CheckpointContents& contents) {
  auto index = ReadJsonObject(folder / kIndexFile, kMaxIndexBytes, contents.header_bytes_read);
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(absl::StrCat(folder.string(), " has neither ", kSingleFile, " nor ", kIndexFile));
  }
  RETURN_IF_ERROR(index.status());
  auto weight_map = ParseSafetensorsIndex(*index);
  if (!weight_map.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat((folder / kIndexFile).string(), ": ", weight_map.status().message()));
  }
  RETURN_IF_ERROR(AddShards(folder, *weight_map, contents));
  return CheckIndexAgrees(*weight_map, contents);
}

}  // namespace

absl::StatusOr<WeightMap> ParseSafetensorsIndex(const nlohmann::json& index) {
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object()) {
    return absl::InvalidArgumentError("no object \"weight_map\" of tensor names to file names");
  }
  WeightMap weight_map;
  for (const auto& [name, file] : found->items()) {
    if (!file.is_string() || !StaysInFolder(file.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), " is said to lie in ",
                                                     Quoted(file.dump()),
                                                     ", expected the name of a file in the same "
                                                     "folder"));
    }
    weight_map[name] = file.get<std::string>();
  }
  return weight_map;
}

absl::StatusOr<CheckpointContents> OpenHfFolder(const std::filesystem::path& folder) {
  CheckpointContents contents;
  RETURN_IF_ERROR(ReadConfigs(folder, contents));
  const absl::Status single = AddFile(folder / kSingleFile, contents);
  if (!absl::IsNotFound(single)) {
    RETURN_IF_ERROR(single);
    return contents;
  }
  RETURN_IF_ERROR(AddIndexedFiles(folder, contents));
  return contents;
}

}  // namespace trireme::sharding
