// `tokenizer.ggml.pre` names how text is split before byte-level BPE; a name, not a rule, so that each is spelled out.
#pragma once
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace trireme::server {

struct GgufPreTokenizer {
  nlohmann::json pre_tokenizer;  // as in tokenizer.json
  bool ignore_merges = false;    // a whole word that is in the vocabulary is one token, whatever the merges say
  bool adds_bos = false;         // unless add_bos_token says otherwise
};

// smollm, gpt-2, llama-bpe, qwen2, gpt-4o. Unimplemented for others, "default" too: llama.cpp means an old
// fallback of its own by it, which is no published model's.
absl::StatusOr<GgufPreTokenizer> PreTokenizerFromGguf(std::string_view pre);

}  // namespace trireme::server
