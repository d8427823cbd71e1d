#include "sharding/program/compile.h"

#include "sharding/program/arena.h"
#include "sharding/program/compile_context.h"
#include "sharding/program/compile_modules.h"
#include "sharding/program/compile_value_ops.h"

namespace trireme::sharding {
namespace {

// Where an op cannot be compiled the problem is noted, and the rest is compiled as if its output were
// Replicate, from which every layout can be made: so all problems are found and none is made up.
void CompileOps(CompileContext& context) {
  for (const Op& op : context.program.ops) {
    std::visit([&](const auto& kind) { CompileOp(context, op, kind); }, op.kind);
    if (!context.values.IsDefined(op.output)) context.values.AssumeReplicated(op.output);
  }
}

// Logits stay cut on the vocabulary (sampling works on parts), in one stretch a rank.
void FinishLogits(CompileContext& context) {
  const ValueId logits = context.program.logits;
  const Layout given = context.values.LayoutOf(logits);
  const Layout wanted = given.is_shard() ? given : Layout::Replicated();
  CompiledProgram& out = context.out;
  out.logits = *context.values.In(logits, wanted, "logits");
  out.vocabulary = context.FullWidth(logits);
  out.logits_vocabulary = wanted.is_cut() ? Span((*wanted.parts)[out.rank.index]) : Interval{0, out.vocabulary};
}

void FinishKvGroups(CompileContext& context) {
  for (std::size_t i = 0; i < context.program.kv_groups.size(); ++i) {
    const KvGroup& group = context.program.kv_groups[i];
    context.out.kv_groups.push_back({.num_layers = group.num_layers,
                                     .num_kv_heads = context.local_kv_heads[i].value_or(group.num_kv_heads),
                                     .head_dim = group.head_dim});
  }
}

}  // namespace

absl::StatusOr<CompiledProgram> Compile(const Program& program, const ResolvedPlan& plan, Rank rank) {
  CompileContext context(program, plan, rank);
  CompileOps(context);
  if (!context.problems.empty()) return context.problems.ToStatus();
  FinishLogits(context);
  FinishKvGroups(context);
  context.out.rope_tables = program.rope_tables;
  PlanArena(context.out);
  return std::move(context.out);
}

std::vector<int> ValidTpDegrees(const Program& program, const ResolvedPlan& plan, int max_degree) {
  // What is refused depends on the degree and not on the rank: a compilation cuts every axis for all ranks.
  std::vector<int> degrees;
  for (int degree = 1; degree <= max_degree; ++degree) {
    if (Compile(program, plan, {.index = 0, .world = degree}).ok()) degrees.push_back(degree);
  }
  return degrees;
}

}  // namespace trireme::sharding
