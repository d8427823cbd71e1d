#include "server/text/gguf_tokenizer.h"

#include <cmath>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/gguf_merges.h"
#include "server/text/gguf_pre_tokenizer.h"
#include "server/text/utf8_stream.h"

namespace trireme::server {
namespace {

using nlohmann::json;

constexpr std::string_view kSpaceMark = "\u2581";  // SentencePiece's "▁"

absl::Status Wrong(std::string_view key, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.", std::string(key), ": ", what));
}

absl::Status CheckLength(std::string_view key, std::size_t length, std::size_t num_tokens) {
  if (length == num_tokens) return absl::OkStatus();
  return Wrong(key, absl::StrCat(length, " entries for ", num_tokens, " tokens"));
}

absl::Status CheckTokens(const GgufVocabulary& vocabulary) {
  RETURN_IF_ERROR(CheckLength("token_type", vocabulary.token_types.size(), vocabulary.tokens.size()));
  std::unordered_map<std::string_view, std::uint32_t> id_of;
  for (std::uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    const std::int32_t type = vocabulary.token_types[id];
    if (type < kGgufNormal || type > kGgufByte) {
      return Wrong("token_type", absl::StrCat("token ", id, " has type ", type, ", not 1 to 6"));
    }
    if (type == kGgufUnused) continue;
    if (!IsUtf8(token)) return Wrong("tokens", absl::StrCat("token ", id, " is not UTF-8"));
    const auto [other, is_new] = id_of.emplace(token, id);
    if (!is_new) return Wrong("tokens", absl::StrCat("tokens ", other->second, " and ", id, " are both '", token, "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckScores(const GgufVocabulary& vocabulary) {
  RETURN_IF_ERROR(CheckLength("scores", vocabulary.scores.size(), vocabulary.tokens.size()));
  for (std::size_t id = 0; id < vocabulary.scores.size(); ++id) {
    if (!std::isfinite(vocabulary.scores[id]))
      return Wrong("scores", absl::StrCat("token ", id, " has no finite score"));
  }
  return absl::OkStatus();
}

// The spelling of the token that `key` names by id.
absl::StatusOr<std::string> TokenNamed(std::string_view key, std::optional<std::uint32_t> id,
                                       const GgufVocabulary& vocabulary) {
  if (!id) return Wrong(key, "is absent, but the token is to be added to each prompt");
  if (*id >= vocabulary.tokens.size() || vocabulary.token_types[*id] == kGgufUnused) {
    return Wrong(key, absl::StrCat(*id, " is not one of the ", vocabulary.tokens.size(), " tokens"));
  }
  return vocabulary.tokens[*id];
}

absl::StatusOr<TextEnds> EndsFrom(const GgufVocabulary& vocabulary, bool adds_bos_by_default) {
  TextEnds ends;
  if (vocabulary.add_bos_token.value_or(adds_bos_by_default)) {
    ASSIGN_OR_RETURN(ends.begin, TokenNamed("bos_token_id", vocabulary.bos_token_id, vocabulary));
  }
  if (vocabulary.add_eos_token.value_or(false)) {
    ASSIGN_OR_RETURN(ends.end, TokenNamed("eos_token_id", vocabulary.eos_token_id, vocabulary));
  }
  return ends;
}

json AddedToken(std::uint32_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// Added tokens are found in a text before it is split; of those, special ones can be skipped on the way back.
json AddedTokens(const GgufVocabulary& vocabulary) {
  json added = json::array();
  for (std::uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::int32_t type = vocabulary.token_types[id];
    if (type == kGgufUserDefined || type == kGgufControl || type == kGgufUnknown) {
      added.push_back(AddedToken(id, vocabulary.tokens[id], type != kGgufUserDefined));
    }
  }
  return added;
}

json Vocabulary(const GgufVocabulary& vocabulary) {
  json ids = json::object();
  for (std::uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.token_types[id] != kGgufUnused) ids[vocabulary.tokens[id]] = id;
  }
  return ids;
}

json Bpe(const GgufVocabulary& vocabulary, const std::vector<Merge>& merges) {
  return {{"type", "BPE"}, {"vocab", Vocabulary(vocabulary)}, {"merges", merges}};
}

json Document(const GgufVocabulary& vocabulary, json model) {
  return {{"version", "1.0"}, {"added_tokens", AddedTokens(vocabulary)}, {"model", std::move(model)}};
}

absl::StatusOr<GgufTokenizer> ByteLevelBpe(const GgufVocabulary& vocabulary) {
  ASSIGN_OR_RETURN(GgufPreTokenizer pre, PreTokenizerFromGguf(vocabulary.pre));
  ASSIGN_OR_RETURN(std::vector<Merge> merges, ParseMerges(vocabulary));
  ASSIGN_OR_RETURN(TextEnds ends, EndsFrom(vocabulary, pre.adds_bos));
  json model = Bpe(vocabulary, merges);
  model["ignore_merges"] = pre.ignore_merges;
  json document = Document(vocabulary, std::move(model));
  document["pre_tokenizer"] = std::move(pre.pre_tokenizer);
  document["decoder"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  return GgufTokenizer{.json = document.dump(), .ends = std::move(ends)};
}

// The token that stands for what no other does. Byte tokens make it unreachable; without either, text would be lost.
absl::StatusOr<std::string> UnknownToken(const GgufVocabulary& vocabulary) {
  for (std::uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.token_types[id] == kGgufUnknown) return vocabulary.tokens[id];
  }
  return TokenNamed("unknown_token_id", vocabulary.unknown_token_id, vocabulary);
}

json Replace(std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

json SpaceToMark(bool add_space_prefix) {
  json steps = json::array();
  if (add_space_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  steps.push_back(Replace(" ", kSpaceMark));
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

json MarkToSpace(bool add_space_prefix) {
  json steps = json::array({Replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (add_space_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

absl::StatusOr<GgufTokenizer> SentencePieceBpe(const GgufVocabulary& vocabulary) {
  RETURN_IF_ERROR(CheckScores(vocabulary));
  ASSIGN_OR_RETURN(std::string unknown, UnknownToken(vocabulary));
  ASSIGN_OR_RETURN(TextEnds ends, EndsFrom(vocabulary, /*adds_bos_by_default=*/true));
  json model = Bpe(vocabulary, MergesFromScores(vocabulary));
  model.update({{"unk_token", std::move(unknown)}, {"byte_fallback", true}, {"fuse_unk", true}});
  const bool add_space_prefix = vocabulary.add_space_prefix.value_or(true);
  json document = Document(vocabulary, std::move(model));
  document["normalizer"] = SpaceToMark(add_space_prefix);
  document["decoder"] = MarkToSpace(add_space_prefix);
  return GgufTokenizer{.json = document.dump(), .ends = std::move(ends)};
}

}  // namespace

absl::StatusOr<GgufTokenizer> TokenizerFromGguf(const GgufVocabulary& vocabulary) {
  const bool is_gpt2 = vocabulary.model == "gpt2";
  if (!is_gpt2 && vocabulary.model != "llama") {
    return absl::UnimplementedError(
        absl::StrCat("tokenizer.ggml.model '", vocabulary.model, "' is not supported; supported are gpt2 and llama"));
  }
  RETURN_IF_ERROR(CheckTokens(vocabulary));
  return is_gpt2 ? ByteLevelBpe(vocabulary) : SentencePieceBpe(vocabulary);
}

}  // namespace trireme::server
