#include "sharding/families/common_config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "sharding/families/rope.h"

namespace trireme::sharding {
namespace {

using nlohmann::json;

// The type is called `rope_type`, in older files `type`; some have both.
std::string ReadRopeType(ConfigReader& rope) {
  const std::string older = rope.String("type", "default");
  return rope.String("rope_type", older);
}

RopeTable ReadLlama3Rope(ConfigReader& rope, double theta, const RopeDefaults& defaults) {
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    if (!rope.Has(key)) rope.AddProblem(absl::StrCat("rope type llama3 without ", key));
  }
  const Llama3Scaling scaling{.factor = rope.PositiveNumber("factor", 1),
                              .low_freq_factor = rope.PositiveNumber("low_freq_factor", 1),
                              .high_freq_factor = rope.PositiveNumber("high_freq_factor", 4),
                              .original_max_positions = rope.PositiveNumber(
                                  "original_max_position_embeddings", static_cast<double>(defaults.max_positions))};
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.AddProblem("rope type llama3: high_freq_factor is not above low_freq_factor");
  }
  return Llama3Rope(theta, defaults.dim, scaling);
}

RopeTable ReadRopeObject(ConfigReader& rope, double theta_on_top, const RopeDefaults& defaults) {
  const std::string type = ReadRopeType(rope);
  const double theta = rope.PositiveNumber("rope_theta", theta_on_top);
  rope.Only("partial_rotary_factor", 1.0);
  if (type == "llama3") return ReadLlama3Rope(rope, theta, defaults);
  if (type != "default") {
    rope.AddProblem(absl::StrCat("rope type ", type, " is not supported; supported are default and llama3"));
  }
  return DefaultRope(theta, defaults.dim);
}

}  // namespace

void ReadGenericKeys(ConfigReader& config) {
  config.Harmless({"model_type",
                   "architectures",
                   "transformers_version",
                   "dtype",
                   "torch_dtype",
                   "_name_or_path",
                   "_attn_implementation_autoset",
                   "attn_implementation",
                   "use_cache",
                   "initializer_range",
                   "bos_token_id",
                   "eos_token_id",
                   "pad_token_id",
                   "transformers.js_config",
                   "is_llama_config",
                   "output_attentions",
                   "output_hidden_states",
                   "return_dict",
                   "torchscript",
                   "use_bfloat16",
                   "id2label",
                   "label2id",
                   "problem_type",
                   "task_specific_params",
                   "finetuning_task",
                   "chunk_size_feed_forward",
                   "tokenizer_class",
                   "prefix",
                   "unsloth_version",
                   "unsloth_fixed"});
  config.Only("quantization_config", json());
  config.Only("is_encoder_decoder", false);
  config.Only("is_decoder", false);
  config.Only("add_cross_attention", false);
  config.Only("cross_attention_hidden_size", json());
  config.Only("tie_encoder_decoder", false);
  config.Only("pruned_heads", json::object());
}

RopeTable ReadRope(ConfigReader& config, const RopeDefaults& defaults) {
  const double theta = config.PositiveNumber("rope_theta", defaults.theta);
  config.Only("partial_rotary_factor", 1.0);
  const std::string key = config.Has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const json none = json::object();
  const json* object = config.Object(key);
  config.Harmless({"rope_scaling", "rope_parameters"});
  ConfigReader rope(object == nullptr ? none : *object, key + ".");
  RopeTable table = ReadRopeObject(rope, theta, defaults);
  config.Absorb(rope);
  return table;
}

}  // namespace trireme::sharding
