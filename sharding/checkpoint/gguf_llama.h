// GGUF's architecture `llama` in the terms of Hugging Face: names, config, order of rows.
//
// Other architectures are refused by name until their own table exists: their norms, fused weights and rows differ.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/gguf.h"

namespace trireme::sharding {

// "blk.3.attn_q.weight" → "model.layers.3.self_attn.q_proj.weight". `rope_freqs.weight` keeps its name.
// InvalidArgument for a name that the architecture does not have.
absl::StatusOr<std::string> LlamaTensorName(std::string_view gguf_name);

// A config.json in the spelling of Transformers 4 (rope_theta on top). Of the tensors only presence is used
// (biases, a head of its own) and, failing a key, the number of tokens for the vocabulary.
//
// Unimplemented: another architecture, experts, per-layer head counts, partial rotary. InvalidArgument: a key
// that is missing, of a wrong type, or not known in this architecture.
absl::StatusOr<nlohmann::json> LlamaConfig(const GgufHeader& header);

// The width of a head: attention.key_length, or hidden / heads. Even. Unimplemented if values or rope are not as wide.
absl::StatusOr<std::uint32_t> LlamaHeadDim(const GgufMetadata& metadata);

// The header's tensors under Hugging Face's names, q and k marked as interleaved by head.
// InvalidArgument: a name that is not known, q or k rows that are no multiple of the head's width.
absl::StatusOr<std::vector<TensorInfo>> LlamaTensors(const GgufHeader& header);

}  // namespace trireme::sharding
