#include "sharding/families/llama.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/families/common_config.h"
#include "sharding/families/config_reader.h"

namespace trireme::sharding {
namespace {

// Far above any model, far below where a product of two would overflow.
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 28;
constexpr std::int64_t kMaxHeads = 1 << 16;
constexpr std::int64_t kMaxLayers = 10'000;

struct Heads {
  int query = 0;
  int kv = 0;
  int dim = 0;
};

Heads ReadHeads(ConfigReader& config, std::int64_t hidden) {
  const std::int64_t query = config.PositiveInt("num_attention_heads", 32, kMaxHeads);
  const std::int64_t kv = config.PositiveInt("num_key_value_heads", query, kMaxHeads);
  if (query % kv != 0) {
    config.AddProblem(absl::StrCat("num_attention_heads ", query, " is not a multiple of num_key_value_heads ", kv));
  }
  if (!config.Has("head_dim") && hidden % query != 0) {
    config.AddProblem(absl::StrCat("hidden_size ", hidden, " is not a multiple of num_attention_heads ", query,
                                   ", and there is no head_dim"));
  }
  std::int64_t dim = config.PositiveInt("head_dim", std::max<std::int64_t>(hidden / query, 1), kMaxHeads);
  if (dim % 2 != 0) {
    config.AddProblem(absl::StrCat("head_dim ", dim, " is odd, and rope turns pairs"));
    dim += 1;
  }
  return {.query = static_cast<int>(query), .kv = static_cast<int>(kv), .dim = static_cast<int>(dim)};
}

LayerSpec ReadLayer(ConfigReader& config, const Heads& heads) {
  const NormSpec norm{.epsilon = static_cast<float>(config.PositiveNumber("rms_norm_eps", 1e-6))};
  const bool attention_bias = config.Bool("attention_bias", false);
  config.Only("hidden_act", "silu");
  return {.attention_norm = norm,
          .attention = {.num_heads = heads.query,
                        .num_kv_heads = heads.kv,
                        .head_dim = heads.dim,
                        .packing = QkvPacking::kSeparate,
                        .qkv_bias = attention_bias,
                        .output_bias = attention_bias,
                        .rope_table = 0,
                        .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(heads.dim)))},
          .mlp_norm = norm,
          .mlp = {.intermediate = config.PositiveInt("intermediate_size", 11008, kMaxWidth),
                  .packing = MlpPacking::kSeparate,
                  .activation = Activation::kSilu,
                  .bias = config.Bool("mlp_bias", false)}};
}

// Keys of neighbouring families that some files have, at the value that changes nothing; and what only training uses.
void ReadIndifferentKeys(ConfigReader& config) {
  ReadGenericKeys(config);
  config.Harmless({"attention_dropout"});
  config.Only("pretraining_tp", 1);
  config.Only("rope_interleaved", false);
  config.Only("sliding_window", nlohmann::json());
  config.Only("use_sliding_window", false);
}

void RefuseOtherLayerTypes(ConfigReader& config, std::int64_t num_layers) {
  config.Only("layer_types", nlohmann::json(std::vector<std::string>(num_layers, "full_attention")));
}

absl::StatusOr<DecoderSpec> SpecFromConfig(const nlohmann::json& json) {
  ConfigReader config(json);
  DecoderSpec spec;
  spec.model_type = "llama";
  spec.hidden = config.PositiveInt("hidden_size", 4096, kMaxWidth);
  spec.vocabulary = config.PositiveInt("vocab_size", 32000, kMaxWidth);
  spec.max_positions = config.PositiveInt("max_position_embeddings", 2048, kMaxWidth);
  spec.tied_head = config.Bool("tie_word_embeddings", false);
  const Heads heads = ReadHeads(config, spec.hidden);
  const LayerSpec layer = ReadLayer(config, heads);
  spec.layers.assign(config.PositiveInt("num_hidden_layers", 32, kMaxLayers), layer);
  spec.final_norm = layer.attention_norm;
  spec.rope_tables = {ReadRope(config, {.theta = 10000, .dim = heads.dim, .max_positions = spec.max_positions})};
  spec.harmless_tensors = {"rotary_emb.inv_freq"};
  ReadIndifferentKeys(config);
  RefuseOtherLayerTypes(config, static_cast<std::int64_t>(spec.layers.size()));
  RETURN_IF_ERROR(config.Finish());
  return spec;
}

// As Transformers', except that logits stay cut on the vocabulary (there: colwise_gather_output).
Plan BuiltInPlan(const DecoderSpec& spec) {
  return {.rules = {
              {"model.embed_tokens", spec.tied_head ? "embedding_rowwise" : "replicate"},
              {"model.layers.*.self_attn.q_proj", "colwise"},
              {"model.layers.*.self_attn.k_proj", "colwise"},
              {"model.layers.*.self_attn.v_proj", "colwise"},
              {"model.layers.*.self_attn.o_proj", "rowwise"},
              {"model.layers.*.mlp.gate_proj", "colwise"},
              {"model.layers.*.mlp.up_proj", "colwise"},
              {"model.layers.*.mlp.down_proj", "rowwise"},
              {"lm_head", "colwise"},
          }};
}

}  // namespace

Family LlamaFamily() {
  return {.model_type = "llama",
          .architecture = "LlamaForCausalLM",
          .spec_from_config = SpecFromConfig,
          .plan = BuiltInPlan};
}

}  // namespace trireme::sharding
