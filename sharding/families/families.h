// The model families that are known: a mapping from config.json to a DecoderSpec, and a plan. The list is in
// families.cc; each family has a file of its own.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/families/decoder_spec.h"
#include "sharding/plan/plan.h"

namespace trireme::sharding {

struct Family {
  std::string_view model_type;    // config.json's "model_type"
  std::string_view architecture;  // the one in "architectures" that is served: "LlamaForCausalLM"

  // `config` is an object, as save_pretrained writes it: of Transformers 5 (rope_parameters) or of 4
  // (rope_theta, rope_scaling). Absent keys take Transformers' defaults. InvalidArgument, all at once, one a
  // line: unknown keys, values out of range, values whose computation is not implemented.
  absl::StatusOr<DecoderSpec> (*spec_from_config)(const nlohmann::json& config);

  // Null if the family has no plan, and then everything is replicated.
  Plan (*plan)(const DecoderSpec& spec);
};

std::span<const Family> Families();

// By "model_type" and "architectures". InvalidArgument if there is none, with what was got and what there is.
absl::StatusOr<const Family*> FindFamily(const nlohmann::json& config);

}  // namespace trireme::sharding
