#include "sharding/program/compile_context.h"

#include "base/check.h"

namespace trireme::sharding {

CompileContext::CompileContext(const Program& full_program, const ResolvedPlan& resolved_plan, Rank rank)
    : program(full_program),
      plan(resolved_plan),
      cutter(rank.world),
      parameters(program, cutter, problems, out),
      values(program, parameters, problems, out),
      local_kv_heads(program.kv_groups.size()) {
  CHECK(rank.index >= 0 && rank.index < rank.world) << "rank " << rank.index << " of " << rank.world;
  out.rank = rank;
}

void CompileContext::Define(const Op& op, LocalOpKind kind, std::vector<ValueId> inputs, Layout layout,
                            std::vector<PendingBias> pending_biases) {
  values.Define({.op = op,
                 .strategy = StrategyName(op),
                 .kind = std::move(kind),
                 .local_inputs = std::move(inputs),
                 .layout = std::move(layout),
                 .pending_biases = std::move(pending_biases)});
}

std::optional<Layout> CompileContext::ShardOfFeatures(const Op& op, ValueId value) {
  absl::StatusOr<Parts> parts = cutter.Cut(program.values[value].features, /*strided=*/false);
  if (parts.ok()) return Layout::Sharded(*std::move(parts));
  Refuse(op, std::string(parts.status().message()));
  return std::nullopt;
}

std::string CompileContext::StrategyName(const Op& op) const {
  const Strategy* strategy = plan.ForModule(op.module);
  return strategy == nullptr ? "" : std::string(strategy->name());
}

}  // namespace trireme::sharding
