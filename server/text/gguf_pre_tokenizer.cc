#include "server/text/gguf_pre_tokenizer.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace trireme::server {
namespace {

using nlohmann::json;

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// To GPT-2's alphabet; with GPT-2's own split before it if `splits`.
json ByteLevel(bool splits) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", splits}};
}

json InTurn(json first, json second) {
  return {{"type", "Sequence"}, {"pretokenizers", json::array({std::move(first), std::move(second)})}};
}

json SplitBy(std::string_view regex) {
  json split = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  return InTurn(std::move(split), ByteLevel(/*splits=*/false));
}

json DigitsThenGpt2() { return InTurn({{"type", "Digits"}, {"individual_digits", true}}, ByteLevel(/*splits=*/true)); }

}  // namespace

absl::StatusOr<GgufPreTokenizer> PreTokenizerFromGguf(std::string_view pre) {
  if (pre == "gpt-2") return GgufPreTokenizer{.pre_tokenizer = ByteLevel(/*splits=*/true)};
  if (pre == "smollm") return GgufPreTokenizer{.pre_tokenizer = DigitsThenGpt2()};
  if (pre == "qwen2") return GgufPreTokenizer{.pre_tokenizer = SplitBy(kQwen2)};
  if (pre == "gpt-4o") return GgufPreTokenizer{.pre_tokenizer = SplitBy(kO200k)};
  if (pre == "llama-bpe") {
    return GgufPreTokenizer{.pre_tokenizer = SplitBy(kLlama3), .ignore_merges = true, .adds_bos = true};
  }
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.ggml.pre '", std::string(pre),
                   "' is not supported; supported are gpt-2, gpt-4o, llama-bpe, qwen2, smollm"));
}

}  // namespace trireme::server
