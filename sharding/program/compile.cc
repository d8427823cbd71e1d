#include "sharding/program/compile.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "sharding/program/arena.h"
#include "sharding/program/attention_heads.h"
#include "sharding/program/layout.h"
#include "sharding/program/local_parameters.h"
#include "sharding/program/value_layouts.h"

namespace trireme::sharding {
namespace {

// Goes through the program once. Where something is wrong it notes the problem and goes on as if the output were
// Replicate, from which every layout can be made, so that all problems are found and none is made up.
class Compiler {
 public:
  Compiler(const Program& program, const ResolvedPlan& plan, Rank rank)
      : program_(program), plan_(plan), cutter_(rank.world), parameters_(program, cutter_, problems_, out_),
        values_(program, parameters_, problems_, out_), local_kv_heads_(program.kv_groups.size()) {
    CHECK(rank.index >= 0 && rank.index < rank.world) << "rank " << rank.index << " of " << rank.world;
    out_.rank = rank;
  }

  absl::StatusOr<CompiledProgram> Run() && {
    for (const Op& op : program_.ops) {
      std::visit([&](const auto& kind) { CompileOp(op, kind); }, op.kind);
      if (!values_.IsDefined(op.output)) values_.AssumeReplicated(op.output);
    }
    if (!problems_.empty()) return problems_.ToStatus();
    out_.rope_tables = program_.rope_tables;
    FinishLogits();
    FinishKvGroups();
    PlanArena(out_);
    return std::move(out_);
  }

 private:
  void CompileOp(const Op& op, const EmbedOp& embed) {
    const auto table = CutParameterOf(op, embed.table, {.is_embedding = true});
    if (!table.has_value()) return;
    if (table->strided) return Refuse(op, "an embedding cannot be cut block by block");
    const std::int64_t vocabulary = program_.parameters[embed.table].axes[0].extent();
    LocalEmbed local{.table = table->id, .vocabulary = {0, vocabulary}};
    Layout computed = table->FeatureLayout();
    if (table->dim == 0) {
      local.vocabulary = Span((*table->parts)[out_.rank.index]);
      computed = Layout::Summand();
    }
    if (StrategyAgrees(op, std::nullopt, computed)) DefineModule(op, local, {}, computed, {});
  }

  void CompileOp(const Op& op, const LinearOp& linear) {
    const auto weight = CutParameterOf(op, linear.weight, {});
    const auto bias = linear.bias ? CutParameterOf(op, *linear.bias, {.is_bias = true}) : std::nullopt;
    if (!weight.has_value() || bias.has_value() != linear.bias.has_value()) return;
    const bool by_rows = weight->dim == 1;  // cut on `in`
    const Layout wanted = by_rows ? weight->FeatureLayout() : Layout::Replicated();
    const Layout computed = by_rows ? Layout::Summand() : weight->FeatureLayout();
    const Layout biased = by_rows ? Layout::Replicated() : computed;
    if (bias.has_value() && bias->FeatureLayout() != biased) {
      return Refuse(op, "the bias is not cut as the weight's output is");
    }
    if (!StrategyAgrees(op, wanted, computed)) return;
    const std::optional<ValueId> x = Input(op, 0, wanted);
    if (!x.has_value()) return;
    LocalLinear local{.weight = weight->id, .bias = {}};
    std::vector<PendingBias> pending;
    if (bias.has_value() && by_rows) {
      pending.push_back({.bias = *linear.bias, .module = op.module, .strategy = StrategyName(op)});
    } else if (bias.has_value()) {
      local.bias = bias->id;
    }
    DefineModule(op, local, {*x}, computed, std::move(pending));
  }

  void CompileOp(const Op& op, const RmsNormOp& norm) {
    const auto weight = CutParameterOf(op, norm.weight, {});
    if (!weight.has_value()) return;
    if (weight->dim.has_value()) {
      return Refuse(op, absl::StrCat("\"", StrategyName(op), "\" would cut a norm, which needs its whole row"));
    }
    if (!StrategyAgrees(op, Layout::Replicated(), Layout::Replicated())) return;
    const std::optional<ValueId> x = Input(op, 0, Layout::Replicated());
    if (!x.has_value()) return;
    DefineModule(op, LocalRmsNorm{.weight = weight->id, .epsilon = norm.epsilon}, {*x}, Layout::Replicated(), {});
  }

  void CompileOp(const Op& op, const RopeOp& rope) {
    ReducePartials(op);
    const Layout layout = values_.LayoutOf(op.inputs[0]);
    if (!HoldsWholeHeads(layout, rope.head_dim)) return Refuse(op, "rope needs whole heads on each rank");
    const std::int64_t width = layout.Width(FullWidth(op.inputs[0]), out_.rank.index);
    const LocalRope local{.table = rope.table,
                          .head_dim = rope.head_dim,
                          .num_heads = static_cast<int>(width / rope.head_dim)};
    Define(op, local, {*Input(op, 0, layout)}, layout);
  }

  void CompileOp(const Op& op, const AttentionOp& attention) {
    ReducePartials(op);
    const bool by_heads = values_.LayoutOf(op.inputs[0]).is_cut();
    std::vector<ValueId> inputs;
    std::vector<Layout> layouts;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto wanted = by_heads ? ShardOfFeatures(op, op.inputs[i]) : Layout::Replicated();
      if (!wanted.has_value()) return;
      const std::optional<ValueId> local = Input(op, i, *wanted);
      if (!local.has_value()) return;
      inputs.push_back(*local);
      layouts.push_back(*wanted);
    }
    if (layouts[1] != layouts[2]) return Refuse(op, "keys and values are not cut alike");
    if (const absl::Status status = CheckHeads(attention, layouts[0], layouts[1], out_.rank.world); !status.ok()) {
      return Refuse(op, std::string(status.message()));
    }
    const int num_kv_heads = NumLocalHeads(op.inputs[1], layouts[1], attention.head_dim);
    if (!AgreeOnKvHeads(op, attention.kv_group, num_kv_heads)) return;
    const LocalAttention local{.kv_group = attention.kv_group,
                               .layer_in_group = attention.layer_in_group,
                               .num_heads = NumLocalHeads(op.inputs[0], layouts[0], attention.head_dim),
                               .num_kv_heads = num_kv_heads,
                               .head_dim = attention.head_dim,
                               .scale = attention.scale};
    Define(op, local, std::move(inputs), layouts[0]);
  }

  void CompileOp(const Op& op, const GatedActivationOp& gated) {
    ReducePartials(op);
    CompileElementwise(op, gated);
  }

  void CompileOp(const Op& op, const AddOp& add) {
    const bool both_partial = IsPartial(op.inputs[0]) && IsPartial(op.inputs[1]);
    if (!both_partial) ReducePartials(op);
    CompileElementwise(op, add);
  }

  void CompileOp(const Op& op, const ScaleOp& scale) {
    // A bias that waits for the sum would have to be scaled too.
    if (!values_.PendingBiases(op.inputs[0]).empty()) ReducePartials(op);
    Define(op, scale, {*Input(op, 0, values_.LayoutOf(op.inputs[0]))}, values_.LayoutOf(op.inputs[0]));
  }

  void CompileOp(const Op& op, const SelectRowsOp& select) {
    ReducePartials(op);
    Define(op, select, {*Input(op, 0, values_.LayoutOf(op.inputs[0]))}, values_.LayoutOf(op.inputs[0]));
  }

  // Both inputs in one layout: one that both have, or else that of the cut one.
  void CompileElementwise(const Op& op, LocalOpKind kind) {
    const ValueId a = op.inputs[0], b = op.inputs[1];
    Layout common = values_.LayoutOf(a).is_replicated() ? values_.LayoutOf(b) : values_.LayoutOf(a);
    if (values_.HasLayout(a, Layout::Replicated()) && values_.HasLayout(b, Layout::Replicated())) {
      common = Layout::Replicated();
    }
    const std::optional<ValueId> local_a = Input(op, 0, common);
    const std::optional<ValueId> local_b = Input(op, 1, common);
    if (!local_a.has_value() || !local_b.has_value()) return;
    std::vector<PendingBias> pending;
    if (common.is_partial()) {
      pending = values_.PendingBiases(a);
      pending.insert(pending.end(), values_.PendingBiases(b).begin(), values_.PendingBiases(b).end());
    }
    Define(op, std::move(kind), {*local_a, *local_b}, common, std::move(pending));
  }

  // Logits stay cut on the vocabulary (sampling works on parts), in one stretch a rank.
  void FinishLogits() {
    const Layout& given = values_.LayoutOf(program_.logits);
    const Layout wanted = given.is_shard() ? given : Layout::Replicated();
    out_.logits = *values_.In(program_.logits, wanted, "logits");
    out_.vocabulary = FullWidth(program_.logits);
    out_.logits_vocabulary = {0, out_.vocabulary};
    if (wanted.is_cut()) out_.logits_vocabulary = Span((*wanted.parts)[out_.rank.index]);
  }

  void FinishKvGroups() {
    for (std::size_t i = 0; i < program_.kv_groups.size(); ++i) {
      const KvGroup& group = program_.kv_groups[i];
      out_.kv_groups.push_back({.num_layers = group.num_layers,
                                .num_kv_heads = local_kv_heads_[i].value_or(group.num_kv_heads),
                                .head_dim = group.head_dim});
    }
  }

  // A group's cache is one block of memory: its layers hold equally many heads.
  bool AgreeOnKvHeads(const Op& op, int group, int num_kv_heads) {
    std::optional<int>& known = local_kv_heads_[group];
    if (!known.has_value()) known = num_kv_heads;
    if (*known == num_kv_heads) return true;
    Refuse(op, "its keys and values are cut otherwise than those of other layers, with which it shares a cache");
    return false;
  }

  struct Role {
    bool is_bias = false;
    bool is_embedding = false;
  };
  std::optional<CutParameter> CutParameterOf(const Op& op, ParameterId parameter, Role role) {
    return parameters_.Cut({.parameter = parameter,
                            .module = op.module,
                            .strategy = plan_.ForModule(op.module),
                            .is_bias = role.is_bias,
                            .is_embedding = role.is_embedding});
  }

  // Whether the strategy's own words fit what follows from the parameters. `wanted`: of the input, if there is one.
  bool StrategyAgrees(const Op& op, const std::optional<Layout>& wanted, const Layout& computed) {
    if (out_.rank.world == 1) return true;
    const Strategy& strategy = *plan_.ForModule(op.module);
    const Placement input = strategy.InputLayout();
    const bool input_fits = !wanted.has_value() || input.index() == wanted->placement.index() ||
                            (wanted->is_cut() && std::holds_alternative<Replicate>(input));
    if (input_fits && strategy.ComputedLayout().index() == computed.placement.index()) return true;
    Refuse(op, absl::StrCat("the strategy \"", StrategyName(op), "\" says ", ToString(input), " → ",
                            ToString(strategy.ComputedLayout()), ", but as it cuts the parameters the module does ",
                            wanted.has_value() ? ToString(wanted->placement) : "ids", " → ",
                            ToString(computed.placement)));
    return false;
  }

  // The output of a module, in the layout that the strategy gives to users.
  void DefineModule(const Op& op, LocalOpKind kind, std::vector<ValueId> inputs, const Layout& computed,
                    std::vector<PendingBias> pending) {
    Define(op, std::move(kind), std::move(inputs), computed, std::move(pending));
    if (out_.rank.world == 1) return;
    const Placement given = plan_.ForModule(op.module)->OutputLayout();
    if (given.index() == computed.placement.index()) return;
    std::optional<Layout> wanted = Layout{given, nullptr};
    if (std::holds_alternative<Shard>(given)) wanted = ShardOfFeatures(op, op.output);
    if (wanted.has_value()) values_.Settle(op.output, *wanted, op.module);
  }

  void Define(const Op& op, LocalOpKind kind, std::vector<ValueId> inputs, Layout layout,
              std::vector<PendingBias> pending = {}) {
    values_.Define({.op = op,
                    .strategy = StrategyName(op),
                    .kind = std::move(kind),
                    .local_inputs = std::move(inputs),
                    .layout = std::move(layout),
                    .pending_biases = std::move(pending)});
  }

  bool IsPartial(ValueId value) const { return values_.LayoutOf(value).is_partial(); }

  void ReducePartials(const Op& op) {
    for (const ValueId input : op.inputs) {
      if (IsPartial(input)) values_.In(input, Layout::Replicated(), op.module);
    }
  }

  std::optional<ValueId> Input(const Op& op, std::size_t index, const Layout& wanted) {
    return values_.In(op.inputs[index], wanted, op.module);
  }

  std::optional<Layout> ShardOfFeatures(const Op& op, ValueId value) {
    absl::StatusOr<Parts> parts = cutter_.Cut(program_.values[value].features, /*strided=*/false);
    if (parts.ok()) return Layout::Sharded(*std::move(parts));
    Refuse(op, std::string(parts.status().message()));
    return std::nullopt;
  }

  std::int64_t FullWidth(ValueId value) const { return program_.values[value].features.extent(); }

  int NumLocalHeads(ValueId value, const Layout& layout, int head_dim) const {
    return static_cast<int>(layout.Width(FullWidth(value), out_.rank.index) / head_dim);
  }

  std::string StrategyName(const Op& op) const {
    const Strategy* strategy = plan_.ForModule(op.module);
    return strategy == nullptr ? "" : std::string(strategy->name());
  }

  void Refuse(const Op& op, std::string problem) { problems_.Add(op.module, std::move(problem)); }

  const Program& program_;
  const ResolvedPlan& plan_;
  CompiledProgram out_;
  ProblemList problems_;
  AxisCutter cutter_;
  LocalParameters parameters_;
  ValueLayouts values_;
  std::vector<std::optional<int>> local_kv_heads_;  // by KV group
};

}  // namespace

absl::StatusOr<CompiledProgram> Compile(const Program& program, const ResolvedPlan& plan, Rank rank) {
  return Compiler(program, plan, rank).Run();
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
