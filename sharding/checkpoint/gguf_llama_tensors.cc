#include "sharding/checkpoint/gguf_llama.h"

#include <optional>
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/error_text.h"

namespace trireme::sharding {
namespace {

constexpr std::string_view kRopeFreqs = "rope_freqs.weight";

struct NamePair {
  std::string_view gguf;
  std::string_view hugging_face;
};

// Names without the suffix ".weight" or ".bias".
constexpr NamePair kGlobalNames[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
// Below "blk.{i}." and "model.layers.{i}.".
constexpr NamePair kLayerNames[] = {
    {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};

std::optional<std::string_view> Lookup(std::span<const NamePair> names, std::string_view gguf) {
  for (const NamePair& pair : names) {
    if (pair.gguf == gguf) return pair.hugging_face;
  }
  return std::nullopt;
}

// "blk.3.attn_q" → "model.layers.3.self_attn.q_proj".
std::optional<std::string> ModuleName(std::string_view gguf) {
  if (const auto name = Lookup(kGlobalNames, gguf)) return std::string(*name);
  constexpr std::string_view kBlock = "blk.";
  const std::size_t dot = gguf.find('.', kBlock.size());
  if (!gguf.starts_with(kBlock) || dot == std::string_view::npos) return std::nullopt;
  const std::string number(gguf.substr(kBlock.size(), dot - kBlock.size()));
  const auto name = Lookup(kLayerNames, gguf.substr(dot + 1));
  int layer = 0;
  // "+3" and "03" are numbers too, but would make two names of one.
  if (!name.has_value() || !absl::SimpleAtoi(number, &layer) || absl::StrCat(layer) != number || layer < 0) {
    return std::nullopt;
  }
  return absl::StrCat("model.layers.", layer, ".", std::string(*name));
}

bool IsQueryOrKey(std::string_view name) {
  return absl::StrContains(std::string(name), ".self_attn.q_proj.") ||
         absl::StrContains(std::string(name), ".self_attn.k_proj.");
}

}  // namespace

absl::StatusOr<std::string> LlamaTensorName(std::string_view gguf_name) {
  if (gguf_name == kRopeFreqs) return std::string(gguf_name);
  for (const std::string_view suffix : {std::string_view(".weight"), std::string_view(".bias")}) {
    if (!gguf_name.ends_with(suffix)) continue;
    const auto module = ModuleName(gguf_name.substr(0, gguf_name.size() - suffix.size()));
    if (module.has_value()) return absl::StrCat(*module, std::string(suffix));
  }
  return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(gguf_name), " is not known in architecture llama"));
}

absl::StatusOr<std::vector<TensorInfo>> LlamaTensors(const GgufHeader& header) {
  ASSIGN_OR_RETURN(const std::uint32_t head_dim, LlamaHeadDim(header.metadata));
  std::vector<TensorInfo> tensors;
  for (const TensorInfo& tensor : header.tensors) {
    TensorInfo renamed = tensor;
    ASSIGN_OR_RETURN(renamed.name, LlamaTensorName(tensor.name));
    if (IsQueryOrKey(renamed.name)) {
      if (tensor.shape.empty() || tensor.shape[0] % head_dim != 0) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), " has shape ",
                                                       ShapeToString(tensor.shape),
                                                       ", expected rows in whole heads of ", head_dim));
      }
      renamed.interleaved_head_rows = head_dim;
    }
    tensors.push_back(std::move(renamed));
  }
  return tensors;
}

}  // namespace trireme::sharding
