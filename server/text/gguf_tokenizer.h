// The tokenizer in a GGUF file's metadata, as Hugging Face's tokenizer.json spells it.
//
// Supported: model "gpt2" (byte-level BPE) with a `pre` of gguf_pre_tokenizer.h, and model "llama"
// (SentencePiece-style BPE, whose merges are derived from the scores). Everything else is refused by name: a
// tokenizer that is nearly right gives a model that is nearly right, and nobody is told.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/text_ends.h"

namespace trireme::server {

// The keys `tokenizer.ggml.*`.
struct GgufVocabulary {
  std::string model;                      // "gpt2", "llama"
  std::string pre;                        // the pre-tokenizer's name, for "gpt2"
  std::vector<std::string> tokens;        // by id
  std::vector<std::int32_t> token_types;  // by id: see GgufTokenType
  std::vector<float> scores;              // by id; only "llama" needs them
  std::vector<std::string> merges;        // "left right", best first; only "gpt2" needs them
  std::optional<std::uint32_t> bos_token_id, eos_token_id, unknown_token_id, padding_token_id;
  // Absent: add_bos is true for "llama" and for "gpt2" with pre "llama-bpe"; add_eos is false;
  // add_space_prefix is true. add_space_prefix concerns "llama" only, as in llama.cpp.
  std::optional<bool> add_bos_token, add_eos_token, add_space_prefix;
};

enum GgufTokenType : std::int32_t {
  kGgufNormal = 1,
  kGgufUnknown = 2,
  kGgufControl = 3,      // special
  kGgufUserDefined = 4,  // added to the vocabulary, not special
  kGgufUnused = 5,       // padding: has no text
  kGgufByte = 6,         // "<0xNN>"
};

struct GgufTokenizer {
  std::string json;  // a tokenizer.json without post-processor
  TextEnds ends;     // what add_bos_token and add_eos_token ask for
};

// InvalidArgument names the key, what it holds and what would be right. Unimplemented: an unknown model or pre.
absl::StatusOr<GgufTokenizer> TokenizerFromGguf(const GgufVocabulary& vocabulary);

}  // namespace trireme::server
