#include "sharding/program/program_builder.h"

#include "base/check.h"

namespace trireme::sharding {
namespace {

std::string Named(std::string_view module, std::string_view suffix) { return std::string(module).append(suffix); }

}  // namespace

ProgramBuilder::ProgramBuilder(std::vector<RopeTable> rope_tables) { program_.rope_tables = std::move(rope_tables); }

ValueId ProgramBuilder::Embed(std::string_view module, Axis vocabulary, const Axis& hidden) {
  const ParameterId table = AddParameter(Named(module, ".weight"), {std::move(vocabulary), hidden});
  return Emit(module, std::string(module), EmbedOp{.table = table}, {}, hidden);
}

ValueId ProgramBuilder::Linear(std::string_view module, ValueId x, Axis out, bool bias) {
  LinearOp linear{.weight = AddParameter(Named(module, ".weight"), {out, value(x).features}), .bias = {}};
  if (bias) linear.bias = AddParameter(Named(module, ".bias"), {out});
  return Emit(module, std::string(module), linear, {x}, std::move(out));
}

ValueId ProgramBuilder::TiedLinear(std::string_view module, ValueId x, std::string_view weight_name) {
  const auto found = parameter_ids_.find(weight_name);
  CHECK(found != parameter_ids_.end()) << weight_name;
  const Parameter& weight = program_.parameters[found->second];
  CHECK_EQ(weight.axes.size(), 2u) << weight_name;
  CHECK_EQ(weight.axes[1].extent(), value(x).features.extent()) << weight_name;
  return Emit(module, std::string(module), LinearOp{.weight = found->second, .bias = {}}, {x}, weight.axes[0]);
}

ValueId ProgramBuilder::RmsNorm(std::string_view module, ValueId x, float epsilon) {
  const ParameterId weight = AddParameter(Named(module, ".weight"), {value(x).features});
  return Emit(module, std::string(module), RmsNormOp{.weight = weight, .epsilon = epsilon}, {x}, value(x).features);
}

ValueId ProgramBuilder::Rope(std::string_view module, ValueId x, int table, int head_dim) {
  CHECK(table >= 0 && table < static_cast<int>(program_.rope_tables.size())) << "rope table " << table;
  return Emit(module, Named(value(x).name, ".rope"), RopeOp{.table = table, .head_dim = head_dim}, {x},
              value(x).features);
}

ValueId ProgramBuilder::Attention(std::string_view module, ValueId q, ValueId k, ValueId v,
                                  const AttentionShape& shape) {
  const int group = KvGroupFor(shape);
  const AttentionOp attention{.kv_group = group,
                              .layer_in_group = program_.kv_groups[group].num_layers++,
                              .num_heads = shape.num_heads,
                              .num_kv_heads = shape.num_kv_heads,
                              .head_dim = shape.head_dim,
                              .scale = shape.scale};
  return Emit(module, Named(module, ".attention"), attention, {q, k, v}, value(q).features);
}

ValueId ProgramBuilder::GatedActivation(std::string_view module, ValueId gate, ValueId up, Activation activation) {
  return Emit(module, Named(module, ".activation"), GatedActivationOp{.activation = activation}, {gate, up},
              value(gate).features);
}

ValueId ProgramBuilder::Add(std::string name, ValueId a, ValueId b) {
  return Emit("", std::move(name), AddOp{}, {a, b}, value(a).features);
}

ValueId ProgramBuilder::Scale(ValueId x, float factor) {
  return Emit("", Named(value(x).name, ".scaled"), ScaleOp{.factor = factor}, {x}, value(x).features);
}

ValueId ProgramBuilder::SelectRows(ValueId x) {
  const ValueId selected = Emit("", Named(value(x).name, ".selected"), SelectRowsOp{}, {x}, value(x).features);
  program_.values[selected].rows = Rows::kSampled;
  return selected;
}

Program ProgramBuilder::Finish(ValueId logits) && {
  program_.logits = logits;
  return std::move(program_);
}

ParameterId ProgramBuilder::AddParameter(std::string name, std::vector<Axis> axes) {
  const ParameterId id = static_cast<ParameterId>(program_.parameters.size());
  CHECK(parameter_ids_.emplace(name, id).second) << "two parameters named " << name;
  program_.parameters.push_back({.name = std::move(name), .axes = std::move(axes)});
  return id;
}

int ProgramBuilder::KvGroupFor(const AttentionShape& shape) {
  for (std::size_t i = 0; i < program_.kv_groups.size(); ++i) {
    const KvGroup& group = program_.kv_groups[i];
    if (group.num_kv_heads == shape.num_kv_heads && group.head_dim == shape.head_dim) return static_cast<int>(i);
  }
  program_.kv_groups.push_back({.num_layers = 0, .num_kv_heads = shape.num_kv_heads, .head_dim = shape.head_dim});
  return static_cast<int>(program_.kv_groups.size()) - 1;
}

ValueId ProgramBuilder::Emit(std::string_view module, std::string name, const OpKind& kind, std::vector<ValueId> inputs,
                             Axis features) {
  const ValueId output = static_cast<ValueId>(program_.values.size());
  const Rows rows = inputs.empty() ? Rows::kTokens : value(inputs.front()).rows;
  program_.values.push_back({.name = std::move(name), .rows = rows, .features = std::move(features)});
  program_.ops.push_back({.module = std::string(module), .kind = kind, .inputs = std::move(inputs), .output = output});
  return output;
}

}  // namespace trireme::sharding
