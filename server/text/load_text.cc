#include "server/text/load_text.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace trireme::server {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{1} << 30;

absl::Status At(const fs::path& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path.string(), ": ", std::string(status.message())));
}

absl::Status WrongFile(const fs::path& path, const std::string& what) {
  return At(path, absl::InvalidArgumentError(what));
}

// The content of a file; nothing if it does not exist.
absl::StatusOr<std::optional<std::string>> ReadIfPresent(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return std::nullopt;
  if (!fs::is_regular_file(status)) return WrongFile(path, "is not a regular file");
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return At(path, absl::InternalError(error.message()));
  if (size > kMaxFileBytes) return WrongFile(path, absl::StrCat(size, " bytes; the limit is ", kMaxFileBytes));
  std::ifstream in(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  if (!in || content.size() != size) return At(path, absl::InternalError("cannot be read"));
  return content;
}

absl::StatusOr<json> ReadConfig(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadIfPresent(path));
  if (!text) return json::object();
  json config = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return WrongFile(path, "is not a JSON object");
  return config;
}

// tokenizer_config.json, with what it may hold in several shapes.
class TokenizerConfig {
 public:
  TokenizerConfig(fs::path path, json config) : path_(std::move(path)), config_(std::move(config)) {}

  // A special token is a text or an object with the text as "content"; null or absent is none.
  absl::StatusOr<std::optional<std::string>> SpecialToken(const std::string& key) const {
    const json* value = Find(key);
    if (value != nullptr && value->is_object() && value->contains("content")) value = &(*value)["content"];
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) return Wrong(key, "neither a text nor an object with a text 'content'");
    return value->get<std::string>();
  }

  absl::StatusOr<SpecialTokenTexts> SpecialTokens() const {
    SpecialTokenTexts texts;
    for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
      ASSIGN_OR_RETURN(std::optional<std::string> text, SpecialToken(key));
      if (text) texts[key] = *std::move(text);
    }
    return texts;
  }

  // Nothing if the file does not say, so that tokenizer.json decides. One of the two given, the other is false.
  absl::StatusOr<std::optional<TextEnds>> Ends(const SpecialTokenTexts& texts) const {
    if (Find("add_bos_token") == nullptr && Find("add_eos_token") == nullptr) return std::nullopt;
    TextEnds ends;
    ASSIGN_OR_RETURN(ends.begin, End("add_bos_token", "bos_token", texts));
    ASSIGN_OR_RETURN(ends.end, End("add_eos_token", "eos_token", texts));
    return ends;
  }

  absl::StatusOr<std::optional<std::string>> ChatTemplateText() const {
    const json* value = Find("chat_template");
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    if (!value->is_array()) return Wrong("chat_template", "neither a text nor a list");
    for (const json& entry : *value) {
      if (!IsNamedTemplate(entry)) return Wrong("chat_template", "an entry without texts 'name' and 'template'");
      if (entry["name"] == "default") return entry["template"].get<std::string>();
    }
    return std::nullopt;
  }

 private:
  const json* Find(const std::string& key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }

  absl::StatusOr<std::optional<std::string>> End(const std::string& flag, const std::string& token,
                                                 const SpecialTokenTexts& texts) const {
    const json* value = Find(flag);
    if (value != nullptr && !value->is_boolean()) return Wrong(flag, "not a boolean");
    const auto text = texts.find(token);
    if (value == nullptr || !value->get<bool>() || text == texts.end()) return std::nullopt;
    return text->second;
  }

  static bool IsNamedTemplate(const json& entry) {
    return entry.is_object() && entry.contains("name") && entry["name"].is_string() && entry.contains("template") &&
           entry["template"].is_string();
  }

  absl::Status Wrong(const std::string& key, const std::string& what) const {
    return WrongFile(path_, absl::StrCat("'", key, "' is ", what));
  }

  fs::path path_;
  json config_;
};

struct TemplateSource {
  fs::path path;
  std::string text;
};

absl::StatusOr<std::optional<TemplateSource>> FindTemplate(const fs::path& folder, const fs::path& config_path,
                                                           const TokenizerConfig& config) {
  const fs::path own_file = folder / "chat_template.jinja";
  ASSIGN_OR_RETURN(std::optional<std::string> text, ReadIfPresent(own_file));
  if (text) return TemplateSource{.path = own_file, .text = *std::move(text)};
  ASSIGN_OR_RETURN(text, config.ChatTemplateText());
  if (text) return TemplateSource{.path = config_path, .text = *std::move(text)};
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<const ChatTemplate>> CompileAt(const std::optional<TemplateSource>& source) {
  if (!source) return std::shared_ptr<const ChatTemplate>();
  auto compiled = ChatTemplate::Compile(source->text);
  if (!compiled.ok()) return At(source->path, compiled.status());
  return compiled;
}

}  // namespace

absl::StatusOr<TextModel> LoadTextFromFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return At(folder, absl::NotFoundError("is not a folder"));
  const fs::path tokenizer_path = fs::path(folder) / "tokenizer.json";
  ASSIGN_OR_RETURN(const std::optional<std::string> tokenizer_json, ReadIfPresent(tokenizer_path));
  if (!tokenizer_json) return TextModel(nullptr, nullptr, {});

  const fs::path config_path = fs::path(folder) / "tokenizer_config.json";
  ASSIGN_OR_RETURN(json config_json, ReadConfig(config_path));
  const TokenizerConfig config(config_path, std::move(config_json));
  ASSIGN_OR_RETURN(SpecialTokenTexts special_tokens, config.SpecialTokens());
  ASSIGN_OR_RETURN(const std::optional<TextEnds> ends, config.Ends(special_tokens));
  auto tokenizer = Tokenizer::FromJson(*tokenizer_json, ends);
  if (!tokenizer.ok()) return At(tokenizer_path, tokenizer.status());
  ASSIGN_OR_RETURN(const std::optional<TemplateSource> source, FindTemplate(folder, config_path, config));
  ASSIGN_OR_RETURN(std::shared_ptr<const ChatTemplate> chat_template, CompileAt(source));
  return TextModel(*std::move(tokenizer), std::move(chat_template), std::move(special_tokens));
}

absl::StatusOr<TextModel> LoadTextFromGguf(const GgufVocabulary& vocabulary,
                                           const std::optional<std::string>& chat_template) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::FromGguf(vocabulary));
  const std::array<std::pair<const char*, std::optional<std::uint32_t>>, 4> named = {{
      {"bos_token", vocabulary.bos_token_id},
      {"eos_token", vocabulary.eos_token_id},
      {"unk_token", vocabulary.unknown_token_id},
      {"pad_token", vocabulary.padding_token_id},
  }};
  SpecialTokenTexts special_tokens;
  for (const auto& [name, id] : named) {
    if (id && *id < vocabulary.tokens.size()) special_tokens[name] = vocabulary.tokens[*id];
  }
  if (!chat_template) return TextModel(std::move(tokenizer), nullptr, std::move(special_tokens));
  ASSIGN_OR_RETURN(std::shared_ptr<const ChatTemplate> compiled, ChatTemplate::Compile(*chat_template));
  return TextModel(std::move(tokenizer), std::move(compiled), std::move(special_tokens));
}

}  // namespace trireme::server
