#include "sharding/program/compile_value_ops.h"

#include "sharding/program/attention_heads.h"

namespace trireme::sharding {
namespace {

void ReducePartials(CompileContext& context, const Op& op) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (context.values.LayoutOf(op.inputs[i]).is_partial()) context.Input(op, i, Layout::Replicated());
  }
}

// An op of one input that leaves the layout as it is.
void DefineAlike(CompileContext& context, const Op& op, LocalOpKind kind) {
  const Layout layout = context.values.LayoutOf(op.inputs[0]);
  const std::optional<ValueId> x = context.Input(op, 0, layout);
  context.Define(op, std::move(kind), {*x}, layout);
}

// Both inputs in one layout: one that both have, or else that of the cut one. Summands stay summands if both are.
void DefineElementwise(CompileContext& context, const Op& op, LocalOpKind kind) {
  ValueLayouts& values = context.values;
  const ValueId a = op.inputs[0], b = op.inputs[1];
  Layout common = values.LayoutOf(a).is_replicated() ? values.LayoutOf(b) : values.LayoutOf(a);
  if (values.HasLayout(a, Layout::Replicated()) && values.HasLayout(b, Layout::Replicated())) {
    common = Layout::Replicated();
  }
  const std::optional<ValueId> local_a = context.Input(op, 0, common);
  const std::optional<ValueId> local_b = context.Input(op, 1, common);
  if (!local_a.has_value() || !local_b.has_value()) return;
  std::vector<PendingBias> pending;
  if (common.is_partial()) {
    pending = values.PendingBiases(a);
    pending.insert(pending.end(), values.PendingBiases(b).begin(), values.PendingBiases(b).end());
  }
  context.Define(op, std::move(kind), {*local_a, *local_b}, common, std::move(pending));
}

// A group's cache is one block of memory: its layers hold equally many heads.
bool AgreeOnKvHeads(CompileContext& context, const Op& op, int group, int num_kv_heads) {
  std::optional<int>& known = context.local_kv_heads[group];
  if (!known.has_value()) known = num_kv_heads;
  if (*known == num_kv_heads) return true;
  context.Refuse(op, "its keys and values are cut otherwise than those of other layers, with which it shares a cache");
  return false;
}

// q, k and v in layouts that go together: by heads if q is cut, else whole.
struct AttentionInputs {
  std::vector<ValueId> local;
  std::vector<Layout> layouts;
};
std::optional<AttentionInputs> BringTogether(CompileContext& context, const Op& op) {
  const bool by_heads = context.values.LayoutOf(op.inputs[0]).is_cut();
  AttentionInputs inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const auto wanted = by_heads ? context.ShardOfFeatures(op, op.inputs[i]) : Layout::Replicated();
    if (!wanted.has_value()) return std::nullopt;
    const std::optional<ValueId> local = context.Input(op, i, *wanted);
    if (!local.has_value()) return std::nullopt;
    inputs.local.push_back(*local);
    inputs.layouts.push_back(*wanted);
  }
  return inputs;
}

}  // namespace

void CompileOp(CompileContext& context, const Op& op, const RopeOp& rope) {
  ReducePartials(context, op);
  const Layout& layout = context.values.LayoutOf(op.inputs[0]);
  if (!HoldsWholeHeads(layout, rope.head_dim)) return context.Refuse(op, "rope needs whole heads on each rank");
  const std::int64_t num_heads = context.LocalWidth(op.inputs[0], layout) / rope.head_dim;
  DefineAlike(context, op,
              LocalRope{.table = rope.table, .head_dim = rope.head_dim, .num_heads = static_cast<int>(num_heads)});
}

void CompileOp(CompileContext& context, const Op& op, const AttentionOp& attention) {
  ReducePartials(context, op);
  const auto inputs = BringTogether(context, op);
  if (!inputs.has_value()) return;
  const Layout &queries = inputs->layouts[0], &keys = inputs->layouts[1], &values = inputs->layouts[2];
  if (keys != values) return context.Refuse(op, "keys and values are not cut alike");
  const absl::Status heads = CheckHeads(attention, queries, keys, context.out.rank.world);
  if (!heads.ok()) return context.Refuse(op, std::string(heads.message()));
  const auto num_heads = [&](std::size_t input) {
    return static_cast<int>(context.LocalWidth(op.inputs[input], inputs->layouts[input]) / attention.head_dim);
  };
  if (!AgreeOnKvHeads(context, op, attention.kv_group, num_heads(1))) return;
  const LocalAttention local{.kv_group = attention.kv_group,
                             .layer_in_group = attention.layer_in_group,
                             .num_heads = num_heads(0),
                             .num_kv_heads = num_heads(1),
                             .head_dim = attention.head_dim,
                             .scale = attention.scale};
  context.Define(op, local, inputs->local, queries);
}

void CompileOp(CompileContext& context, const Op& op, const GatedActivationOp& gated) {
  ReducePartials(context, op);
  DefineElementwise(context, op, gated);
}

void CompileOp(CompileContext& context, const Op& op, const AddOp& add) {
  const bool both_partial =
      context.values.LayoutOf(op.inputs[0]).is_partial() && context.values.LayoutOf(op.inputs[1]).is_partial();
  if (!both_partial) ReducePartials(context, op);
  DefineElementwise(context, op, add);
}

void CompileOp(CompileContext& context, const Op& op, const ScaleOp& scale) {
  // A bias that waits for the sum would have to be scaled too.
  if (!context.values.PendingBiases(op.inputs[0]).empty()) ReducePartials(context, op);
  DefineAlike(context, op, scale);
}

void CompileOp(CompileContext& context, const Op& op, const SelectRowsOp& select) {
  ReducePartials(context, op);
  DefineAlike(context, op, select);
}

}  // namespace trireme::sharding
