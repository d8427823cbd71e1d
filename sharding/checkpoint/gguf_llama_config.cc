#include "sharding/checkpoint/gguf_llama.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/error_text.h"

namespace trireme::sharding {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSupported = "llama";

// Every key below "llama." that is read here or that changes nothing. Any other may change what the model computes.
constexpr std::string_view kKnownKeys[] = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",  // of the making, not of the model
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "tensor_data_layout",  // says that q and k are interleaved, as they always are here
    "vocab_size",
};

std::string Key(std::string_view name) { return absl::StrCat(std::string(kSupported), ".", std::string(name)); }

// The double that a config.json would spell: 1e-05 and not 9.999999747378752e-06. Rounds to the same float.
double ShortestDouble(float value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  double result = 0;
  std::from_chars(std::begin(text), end, result);
  return result;
}

bool HasTensor(const GgufHeader& header, std::string_view name) {
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.name == name) return true;
  }
  return false;
}

absl::Status CheckArchitecture(const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const auto architecture, metadata.Get<std::string>("general.architecture"));
  if (architecture == kSupported) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("architecture ", Quoted(architecture), " is not supported; supported: ", std::string(kSupported)));
}

absl::Status CheckKeys(const GgufMetadata& metadata) {
  const std::string prefix = Key("");
  for (const auto& [key, value] : metadata.values()) {
    if (!absl::StartsWith(key, prefix)) continue;
    const std::string_view name = std::string_view(key).substr(prefix.size());
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), name) == std::end(kKnownKeys)) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata key ", Quoted(key), " is not known in architecture ", std::string(kSupported)));
    }
  }
  return absl::OkStatus();
}

// A count that must be there and above zero.
absl::StatusOr<std::uint32_t> GetCount(const GgufMetadata& metadata, std::string_view name) {
  ASSIGN_OR_RETURN(const auto count, metadata.Get<std::uint32_t>(Key(name)));
  if (count > 0 && count <= std::uint32_t{1} << 30) return count;
  return absl::InvalidArgumentError(absl::StrCat(Key(name), " is ", count, ", expected 1 to 2^30"));
}

absl::StatusOr<double> CheckPositive(std::string_view name, float value) {
  if (std::isfinite(value) && value > 0) return ShortestDouble(value);
  return absl::InvalidArgumentError(absl::StrCat(Key(name), " is ", value, ", expected a positive number"));
}

absl::StatusOr<std::uint32_t> VocabularySize(const GgufMetadata& metadata) {
  if (metadata.FindValue(Key("vocab_size")) != nullptr) return GetCount(metadata, "vocab_size");
  ASSIGN_OR_RETURN(const auto tokens, metadata.Get<std::vector<std::string>>("tokenizer.ggml.tokens"));
  return static_cast<std::uint32_t>(tokens.size());
}

absl::Status AddSizes(const GgufMetadata& metadata, Json& config) {
  ASSIGN_OR_RETURN(const auto heads, GetCount(metadata, "attention.head_count"));
  ASSIGN_OR_RETURN(const auto kv_heads, metadata.GetOr<std::uint32_t>(Key("attention.head_count_kv"), heads));
  ASSIGN_OR_RETURN(config["hidden_size"], GetCount(metadata, "embedding_length"));
  ASSIGN_OR_RETURN(config["intermediate_size"], GetCount(metadata, "feed_forward_length"));
  ASSIGN_OR_RETURN(config["num_hidden_layers"], GetCount(metadata, "block_count"));
  ASSIGN_OR_RETURN(config["max_position_embeddings"], GetCount(metadata, "context_length"));
  ASSIGN_OR_RETURN(config["vocab_size"], VocabularySize(metadata));
  ASSIGN_OR_RETURN(config["head_dim"], LlamaHeadDim(metadata));
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = kv_heads;
  return absl::OkStatus();
}

absl::StatusOr<Json> LinearScaling(const GgufMetadata& metadata, std::string_view key) {
  ASSIGN_OR_RETURN(const auto factor, metadata.Get<float>(Key(key)));
  ASSIGN_OR_RETURN(const double checked, CheckPositive(key, factor));
  return Json{{"rope_type", "linear"}, {"factor", checked}};
}

// llama.cpp multiplies attn_factor into yarn's own factor, Hugging Face replaces that by attention_factor;
// only where it is 1 do they agree without more.
absl::StatusOr<Json> YarnScaling(const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const auto attn_factor, metadata.GetOr<float>(Key("rope.scaling.attn_factor"), 1.0f));
  if (attn_factor != 1.0f) {
    return absl::UnimplementedError(
        absl::StrCat(Key("rope.scaling.attn_factor"), " is ", attn_factor, ", only 1 is supported"));
  }
  ASSIGN_OR_RETURN(Json scaling, LinearScaling(metadata, "rope.scaling.factor"));
  scaling["rope_type"] = "yarn";
  ASSIGN_OR_RETURN(scaling["original_max_position_embeddings"],
                   GetCount(metadata, "rope.scaling.original_context_length"));
  return scaling;
}

// `rope_scaling` as config.json has it; null for none.
absl::StatusOr<Json> RopeScaling(const GgufMetadata& metadata) {
  if (metadata.FindValue(Key("rope.scale_linear")) != nullptr) return LinearScaling(metadata, "rope.scale_linear");
  ASSIGN_OR_RETURN(const auto type, metadata.GetOr<std::string>(Key("rope.scaling.type"), "none"));
  if (type == "none") return Json(nullptr);
  if (type == "linear") return LinearScaling(metadata, "rope.scaling.factor");
  if (type == "yarn") return YarnScaling(metadata);
  return absl::UnimplementedError(
      absl::StrCat(Key("rope.scaling.type"), " is ", Quoted(type), "; supported: none, linear, yarn"));
}

absl::Status AddNumbers(const GgufMetadata& metadata, Json& config) {
  ASSIGN_OR_RETURN(const auto epsilon, metadata.Get<float>(Key("attention.layer_norm_rms_epsilon")));
  ASSIGN_OR_RETURN(config["rms_norm_eps"], CheckPositive("attention.layer_norm_rms_epsilon", epsilon));
  ASSIGN_OR_RETURN(const auto theta, metadata.GetOr<float>(Key("rope.freq_base"), 10000.0f));
  ASSIGN_OR_RETURN(config["rope_theta"], CheckPositive("rope.freq_base", theta));
  ASSIGN_OR_RETURN(config["rope_scaling"], RopeScaling(metadata));
  return absl::OkStatus();
}

absl::Status AddTokenIds(const GgufMetadata& metadata, Json& config) {
  for (const auto& [key, name] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                  std::pair{"tokenizer.ggml.eos_token_id", "eos_token_id"}}) {
    ASSIGN_OR_RETURN(const auto id, metadata.Find<std::uint32_t>(key));
    if (id.has_value()) config[name] = *id;
  }
  return absl::OkStatus();
}

absl::Status RefuseExperts(const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const auto experts, metadata.GetOr<std::uint32_t>(Key("expert_count"), 0));
  if (experts == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(Key("expert_count"), " is ", experts, "; mixtures of experts are not supported in GGUF"));
}

}  // namespace

absl::StatusOr<std::uint32_t> LlamaHeadDim(const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const auto hidden, GetCount(metadata, "embedding_length"));
  ASSIGN_OR_RETURN(const auto heads, GetCount(metadata, "attention.head_count"));
  const bool is_given = metadata.FindValue(Key("attention.key_length")) != nullptr;
  if (!is_given && hidden % heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(Key("embedding_length"), " is ", hidden, ", no multiple of the ",
                                                   heads, " of ", Key("attention.head_count")));
  }
  std::uint32_t head_dim = hidden / heads;
  if (is_given) {
    ASSIGN_OR_RETURN(head_dim, GetCount(metadata, "attention.key_length"));
  }
  if (head_dim == 0 || head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the width of a head is ", head_dim, ", expected an even number"));
  }
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    ASSIGN_OR_RETURN(const auto other, metadata.GetOr<std::uint32_t>(Key(name), head_dim));
    if (other != head_dim) {
      return absl::UnimplementedError(absl::StrCat(Key(name), " is ", other, ", but a head's width is ", head_dim,
                                                   "; that they differ is not supported"));
    }
  }
  return head_dim;
}

absl::StatusOr<Json> LlamaConfig(const GgufHeader& header) {
  const GgufMetadata& metadata = header.metadata;
  RETURN_IF_ERROR(CheckArchitecture(metadata));
  RETURN_IF_ERROR(CheckKeys(metadata));
  RETURN_IF_ERROR(RefuseExperts(metadata));
  Json config = {{"architectures", {"LlamaForCausalLM"}}, {"model_type", "llama"}, {"hidden_act", "silu"}};
  RETURN_IF_ERROR(AddSizes(metadata, config));
  RETURN_IF_ERROR(AddNumbers(metadata, config));
  RETURN_IF_ERROR(AddTokenIds(metadata, config));
  config["attention_bias"] = HasTensor(header, "blk.0.attn_q.bias") || HasTensor(header, "blk.0.attn_output.bias");
  config["mlp_bias"] = HasTensor(header, "blk.0.ffn_down.bias");
  config["tie_word_embeddings"] = !HasTensor(header, "output.weight");
  return config;
}

}  // namespace trireme::sharding
