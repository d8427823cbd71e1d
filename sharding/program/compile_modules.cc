#include "sharding/program/compile_modules.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace trireme::sharding {
namespace {

const Strategy& StrategyOf(const CompileContext& context, const Op& op) {
  const Strategy* strategy = context.plan.ForModule(op.module);
  CHECK(strategy != nullptr) << op.module << ": the plan was resolved for another program";
  return *strategy;
}

struct Role {
  bool is_bias = false;
  bool is_embedding = false;
};
std::optional<CutParameter> Cut(CompileContext& context, const Op& op, ParameterId parameter, Role role) {
  return context.parameters.Cut({.parameter = parameter,
                                 .module = op.module,
                                 .strategy = StrategyOf(context, op),
                                 .is_bias = role.is_bias,
                                 .is_embedding = role.is_embedding});
}

// What a module does to layouts, as it follows from its parameters. No input: token ids.
struct Flow {
  std::optional<Layout> wanted;
  Layout computed;
};

std::string ToString(const Flow& flow) {
  return absl::StrCat(flow.wanted.has_value() ? ToString(flow.wanted->placement) : "ids", " → ",
                      ToString(flow.computed.placement));
}

// Whether the strategy's own words fit `flow`. On one rank they do not count.
bool StrategyAgrees(CompileContext& context, const Op& op, const Flow& flow) {
  if (context.out.rank.world == 1) return true;
  const Strategy& strategy = StrategyOf(context, op);
  const Placement input = strategy.InputLayout();
  const bool input_fits = !flow.wanted.has_value() || input.index() == flow.wanted->placement.index() ||
                          (flow.wanted->is_cut() && std::holds_alternative<Replicate>(input));
  if (input_fits && strategy.ComputedLayout().index() == flow.computed.placement.index()) return true;
  context.Refuse(op, absl::StrCat("the strategy \"", std::string(strategy.name()), "\" says ", ToString(input), " → ",
                                  ToString(strategy.ComputedLayout()),
                                  ", but as it cuts the parameters the module does ", ToString(flow)));
  return false;
}

// Defines a module's output and brings it into the layout that the strategy gives to users.
void DefineModule(CompileContext& context, const Op& op, LocalOpKind kind, std::vector<ValueId> inputs,
                  const Layout& computed, std::vector<PendingBias> pending_biases = {}) {
  context.Define(op, std::move(kind), std::move(inputs), computed, std::move(pending_biases));
  if (context.out.rank.world == 1) return;
  const Placement given = StrategyOf(context, op).OutputLayout();
  if (given.index() == computed.placement.index()) return;
  std::optional<Layout> wanted = Layout{given, nullptr};
  if (std::holds_alternative<Shard>(given)) wanted = context.ShardOfFeatures(op, op.output);
  if (wanted.has_value()) context.values.Settle(op.output, *wanted, op.module);
}

}  // namespace

void CompileOp(CompileContext& context, const Op& op, const EmbedOp& embed) {
  const auto table = Cut(context, op, embed.table, {.is_embedding = true});
  if (!table.has_value()) return;
  if (table->strided) return context.Refuse(op, "an embedding cannot be cut block by block");
  LocalEmbed local{.table = table->id, .vocabulary = {0, context.program.parameters[embed.table].axes[0].extent()}};
  Layout computed = table->FeatureLayout();
  if (table->dim == 0) {
    local.vocabulary = Span((*table->parts)[context.out.rank.index]);
    computed = Layout::Summand();
  }
  if (!StrategyAgrees(context, op, {.wanted = std::nullopt, .computed = computed})) return;
  DefineModule(context, op, local, {}, computed);
}

void CompileOp(CompileContext& context, const Op& op, const LinearOp& linear) {
  const auto weight = Cut(context, op, linear.weight, {});
  std::optional<CutParameter> bias;
  if (linear.bias.has_value()) bias = Cut(context, op, *linear.bias, {.is_bias = true});
  if (!weight.has_value() || bias.has_value() != linear.bias.has_value()) return;
  const bool gives_summands = weight->dim == 1;
  const Flow flow{.wanted = gives_summands ? weight->FeatureLayout() : Layout::Replicated(),
                  .computed = gives_summands ? Layout::Summand() : weight->FeatureLayout()};
  if (bias.has_value() && bias->FeatureLayout() != (gives_summands ? Layout::Replicated() : flow.computed)) {
    return context.Refuse(op, "the bias is not cut as the weight's output is");
  }
  if (!StrategyAgrees(context, op, flow)) return;
  const std::optional<ValueId> x = context.Input(op, 0, *flow.wanted);
  if (!x.has_value()) return;
  LocalLinear local{.weight = weight->id, .bias = {}};
  std::vector<PendingBias> pending;
  if (bias.has_value() && gives_summands) {
    pending.push_back({.bias = *linear.bias, .module = op.module, .strategy = context.StrategyName(op)});
  } else if (bias.has_value()) {
    local.bias = bias->id;
  }
  DefineModule(context, op, local, {*x}, flow.computed, std::move(pending));
}

void CompileOp(CompileContext& context, const Op& op, const RmsNormOp& norm) {
  const auto weight = Cut(context, op, norm.weight, {});
  if (!weight.has_value()) return;
  if (weight->dim.has_value()) {
    return context.Refuse(op, absl::StrCat("the strategy \"", context.StrategyName(op),
                                           "\" would cut a norm, which needs its whole row"));
  }
  const Layout whole = Layout::Replicated();
  if (!StrategyAgrees(context, op, {.wanted = whole, .computed = whole})) return;
  const std::optional<ValueId> x = context.Input(op, 0, whole);
  if (!x.has_value()) return;
  DefineModule(context, op, LocalRmsNorm{.weight = weight->id, .epsilon = norm.epsilon}, {*x}, whole);
}

}  // namespace trireme::sharding
