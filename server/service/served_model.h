// What the service knows of the model it serves.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/text/text_model.h"

namespace trireme::server {

// What absent fields of SamplingParams mean.
struct SamplingDefaults {
  float temperature = 1;
  std::uint32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  float repetition_penalty = 1;
};

// Immutable once the server listens.
struct ServedModel {
  std::string name;
  std::string model_type;           // "llama"
  std::string dtype;                // "float32", "bfloat16"
  std::uint32_t vocab_size = 0;     // rows of the head: token ids are below it
  std::uint32_t max_model_len = 0;  // prompt and output together, in tokens
  std::set<std::uint32_t> eos_token_ids;
  std::optional<std::uint32_t> bos_token_id;
  std::optional<std::uint32_t> pad_token_id;
  SamplingDefaults sampling;
  bool supports_tp_plan = false;
  std::vector<int> valid_tp_degrees;
  TextModel text{nullptr, nullptr, {}};
};

}  // namespace trireme::server
