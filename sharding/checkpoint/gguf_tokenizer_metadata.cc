#include "sharding/checkpoint/gguf_tokenizer_metadata.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/error_text.h"

namespace trireme::sharding {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;

// llama.cpp ends a generation at these whatever the metadata says.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",    "<|im_end|>", "<|end|>",       "<|return|>", "<|call|>", "<|flush|>",       "<|calls|>",
    "<end_of_turn>", "<|eom_id|>", "<|endoftext|>", "<EOT>",      "_<EOT>",   "<|end_of_text|>", "<end_of_utterance>"};

std::string Key(std::string_view name) { return absl::StrCat(std::string(kPrefix), std::string(name)); }

absl::Status ReadTexts(const GgufMetadata& metadata, GgufTokenizerMetadata& tokenizer) {
  ASSIGN_OR_RETURN(tokenizer.pre, metadata.Find<std::string>(Key("pre")));
  ASSIGN_OR_RETURN(tokenizer.chat_template, metadata.Find<std::string>("tokenizer.chat_template"));
  for (const auto& text : {tokenizer.pre, tokenizer.chat_template}) {
    if (text.has_value() && !IsUtf8(*text)) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer text ", Quoted(*text), " is not UTF-8"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUtf8(const std::vector<std::string>& texts, std::string_view what) {
  const auto bad = std::find_if_not(texts.begin(), texts.end(), IsUtf8);
  if (bad == texts.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Key(what), " ", bad - texts.begin(), " is ", Quoted(*bad), ", which is not UTF-8"));
}

absl::Status CheckLength(std::size_t got, std::size_t num_tokens, std::string_view what) {
  if (got == 0 || got == num_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Key(what), " has ", got, " entries, ", Key("tokens"), " has ", num_tokens));
}

absl::Status ReadVocabulary(const GgufMetadata& metadata, GgufTokenizerMetadata& tokenizer) {
  ASSIGN_OR_RETURN(tokenizer.tokens, metadata.Get<std::vector<std::string>>(Key("tokens")));
  ASSIGN_OR_RETURN(tokenizer.token_types, metadata.GetOr<std::vector<std::int32_t>>(Key("token_type"), {}));
  ASSIGN_OR_RETURN(tokenizer.scores, metadata.GetOr<std::vector<float>>(Key("scores"), {}));
  ASSIGN_OR_RETURN(tokenizer.merges, metadata.GetOr<std::vector<std::string>>(Key("merges"), {}));
  RETURN_IF_ERROR(CheckUtf8(tokenizer.tokens, "tokens"));
  RETURN_IF_ERROR(CheckUtf8(tokenizer.merges, "merges"));
  RETURN_IF_ERROR(CheckLength(tokenizer.token_types.size(), tokenizer.tokens.size(), "token_type"));
  return CheckLength(tokenizer.scores.size(), tokenizer.tokens.size(), "scores");
}

absl::StatusOr<std::optional<std::uint32_t>> ReadId(const GgufMetadata& metadata, std::string_view name,
                                                    std::size_t num_tokens) {
  ASSIGN_OR_RETURN(const auto id, metadata.Find<std::uint32_t>(Key(name)));
  if (!id.has_value() || *id < num_tokens) return id;
  return absl::InvalidArgumentError(absl::StrCat(Key(name), " is ", *id, ", but there are ", num_tokens, " tokens"));
}

absl::Status ReadIds(const GgufMetadata& metadata, GgufTokenizerMetadata& tokenizer) {
  const std::size_t num_tokens = tokenizer.tokens.size();
  ASSIGN_OR_RETURN(tokenizer.bos_id, ReadId(metadata, "bos_token_id", num_tokens));
  ASSIGN_OR_RETURN(tokenizer.eos_id, ReadId(metadata, "eos_token_id", num_tokens));
  ASSIGN_OR_RETURN(tokenizer.eot_id, ReadId(metadata, "eot_token_id", num_tokens));
  ASSIGN_OR_RETURN(tokenizer.eom_id, ReadId(metadata, "eom_token_id", num_tokens));
  ASSIGN_OR_RETURN(tokenizer.unk_id, ReadId(metadata, "unknown_token_id", num_tokens));
  ASSIGN_OR_RETURN(tokenizer.pad_id, ReadId(metadata, "padding_token_id", num_tokens));
  return absl::OkStatus();
}

absl::Status ReadSwitches(const GgufMetadata& metadata, GgufTokenizerMetadata& tokenizer) {
  ASSIGN_OR_RETURN(tokenizer.add_bos, metadata.Find<bool>(Key("add_bos_token")));
  ASSIGN_OR_RETURN(tokenizer.add_eos, metadata.Find<bool>(Key("add_eos_token")));
  ASSIGN_OR_RETURN(tokenizer.add_space_prefix, metadata.Find<bool>(Key("add_space_prefix")));
  return absl::OkStatus();
}

// A text that looks like the end of a turn counts only if the vocabulary does not call it ordinary text.
bool IsSpecial(const GgufTokenizerMetadata& tokenizer, std::size_t id) {
  if (tokenizer.token_types.empty()) return true;
  return tokenizer.token_types[id] == kControl || tokenizer.token_types[id] == kUserDefined;
}

}  // namespace

absl::StatusOr<std::optional<GgufTokenizerMetadata>> TokenizerFromGguf(const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const std::string model, metadata.GetOr<std::string>(Key("model"), "none"));
  if (model == "none") return std::optional<GgufTokenizerMetadata>();
  GgufTokenizerMetadata tokenizer;
  tokenizer.model = model;
  RETURN_IF_ERROR(ReadTexts(metadata, tokenizer));
  RETURN_IF_ERROR(ReadVocabulary(metadata, tokenizer));
  RETURN_IF_ERROR(ReadIds(metadata, tokenizer));
  RETURN_IF_ERROR(ReadSwitches(metadata, tokenizer));
  return std::optional(std::move(tokenizer));
}

std::vector<std::uint32_t> EndOfGenerationIds(const GgufTokenizerMetadata& tokenizer) {
  std::set<std::uint32_t> ids;
  for (const auto& id : {tokenizer.eos_id, tokenizer.eot_id, tokenizer.eom_id}) {
    if (id.has_value()) ids.insert(*id);
  }
  for (std::size_t id = 0; id < tokenizer.tokens.size(); ++id) {
    const bool is_end =
        std::find(std::begin(kEndTexts), std::end(kEndTexts), tokenizer.tokens[id]) != std::end(kEndTexts);
    if (is_end && IsSpecial(tokenizer, id)) ids.insert(static_cast<std::uint32_t>(id));
  }
  return {ids.begin(), ids.end()};
}

}  // namespace trireme::sharding
