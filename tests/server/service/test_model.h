// The model that service tests serve: the fixture text_llama's text side, and no weights.
#pragma once
#include "server/service/served_model.h"

namespace trireme::server {

inline constexpr std::uint32_t kTestVocabulary = 512;

// With tokenizer and chat template. max_model_len 1024, end of sequence 507 ("<|im_end|>").
ServedModel TextTestModel();

// The same without a tokenizer.
ServedModel IdsOnlyTestModel();

}  // namespace trireme::server
