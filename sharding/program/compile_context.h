// What the steps of one compilation share (compile.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sharding/plan/plan.h"
#include "sharding/program/compiled_program.h"
#include "sharding/program/layout.h"
#include "sharding/program/local_parameters.h"
#include "sharding/program/program.h"
#include "sharding/program/value_layouts.h"

namespace trireme::sharding {

// Not thread-safe; neither copied nor moved, since its members refer to each other.
struct CompileContext {
  CompileContext(const Program& program, const ResolvedPlan& plan, Rank rank);
  CompileContext(const CompileContext&) = delete;
  CompileContext& operator=(const CompileContext&) = delete;

  const Program& program;
  const ResolvedPlan& plan;
  CompiledProgram out;
  ProblemList problems;
  AxisCutter cutter;
  LocalParameters parameters;
  ValueLayouts values;
  std::vector<std::optional<int>> local_kv_heads;  // by KV group, once a layer of it is compiled

  // Notes why `op` cannot be compiled.
  void Refuse(const Op& op, std::string problem) { problems.Add(op.module, std::move(problem)); }

  // The local value that holds an input of `op` as `wanted`; nothing if there is no way to it, which is noted.
  std::optional<ValueId> Input(const Op& op, std::size_t index, const Layout& wanted) {
    return values.In(op.inputs[index], wanted, op.module);
  }

  // Emits the op that computes `op.output`.
  void Define(const Op& op, LocalOpKind kind, std::vector<ValueId> inputs, Layout layout,
              std::vector<PendingBias> pending_biases = {});

  // A value of the program, cut along its features; nothing if their division forbids it, which is noted.
  std::optional<Layout> ShardOfFeatures(const Op& op, ValueId value);

  std::int64_t FullWidth(ValueId value) const { return program.values[value].features.extent(); }
  std::int64_t LocalWidth(ValueId value, const Layout& layout) const {
    return layout.Width(FullWidth(value), out.rank.index);
  }

  // Empty for ops of no module, and of modules without parameters.
  std::string StrategyName(const Op& op) const;
};

}  // namespace trireme::sharding
