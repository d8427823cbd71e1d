// Small programs for the tests of the layout compiler.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "sharding/families/build_decoder.h"
#include "sharding/families/families.h"
#include "sharding/plan/plan.h"
#include "sharding/program/compile.h"

namespace trireme::sharding {

struct SmallModel {
  Program program;
  Plan plan;

  ResolvedPlan Resolve() const { return Resolve(plan); }
  ResolvedPlan Resolve(const Plan& other) const {
    absl::StatusOr<ResolvedPlan> resolved = ResolvedPlan::Resolve(other, program, StrategyRegistry::BuiltIn());
    CHECK_OK(resolved.status());
    return *std::move(resolved);
  }
};

inline nlohmann::json SmallLlamaConfig() {
  return {{"model_type", "llama"},  {"hidden_size", 24},        {"intermediate_size", 20},
          {"num_hidden_layers", 2}, {"num_attention_heads", 6}, {"num_key_value_heads", 3},
          {"head_dim", 4},          {"vocab_size", 37},         {"max_position_embeddings", 64}};
}

inline SmallModel MakeLlama(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = SmallLlamaConfig();
  config.update(changes);
  const Family& family = **FindFamily(config);
  const absl::StatusOr<DecoderSpec> spec = family.spec_from_config(config);
  CHECK_OK(spec.status());
  return {.program = BuildDecoder(*spec), .plan = family.plan(*spec)};
}

inline absl::StatusOr<std::vector<CompiledProgram>> CompileAll(const Program& program, const ResolvedPlan& plan,
                                                               int world) {
  std::vector<CompiledProgram> ranks;
  for (int index = 0; index < world; ++index) {
    absl::StatusOr<CompiledProgram> compiled = Compile(program, plan, {.index = index, .world = world});
    if (!compiled.ok()) return compiled.status();
    ranks.push_back(*std::move(compiled));
  }
  return ranks;
}

}  // namespace trireme::sharding
