// A GGUF file's tokenizer, as its metadata gives it: not interpreted, only checked for sizes and ranges.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/gguf.h"

namespace trireme::sharding {

struct GgufTokenizerMetadata {
  std::string model;                // "gpt2" (byte-level BPE), "llama" (SentencePiece-style BPE), …
  std::optional<std::string> pre;   // name of the pre-tokenizer of "gpt2" models: "smollm"
  std::vector<std::string> tokens;  // by id
  std::vector<std::int32_t>
      token_types;                  // by id, or empty; 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<float> scores;        // by id, or empty
  std::vector<std::string> merges;  // "left right", best first; may be empty
  // Ids are below tokens.size().
  std::optional<std::uint32_t> bos_id, eos_id, eot_id, eom_id, unk_id, pad_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;  // absent: the default depends on model and pre
  std::optional<std::string> chat_template;                // Jinja
};

// Nothing if the file has no tokenizer (no model, or the model "none"). InvalidArgument: a wrong type, arrays
// of different lengths, an id beyond the vocabulary.
absl::StatusOr<std::optional<GgufTokenizerMetadata>> TokenizerFromGguf(const GgufMetadata& metadata);

// The ids that end a generation, ascending: eos, eot, eom, and every special token that llama.cpp knows by
// its text to end a turn ("<|im_end|>", "<|eot_id|>", "<|endoftext|>", …).
std::vector<std::uint32_t> EndOfGenerationIds(const GgufTokenizerMetadata& tokenizer);

}  // namespace trireme::sharding
