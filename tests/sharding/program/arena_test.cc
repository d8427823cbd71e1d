#include "sharding/program/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sharding/program/program_builder.h"
#include "tests/sharding/program/small_models.h"

namespace trireme::sharding {
namespace {

CompiledProgram CompileSmallLlama(Rank rank) {
  const SmallModel model = MakeLlama({{"attention_bias", true}, {"tie_word_embeddings", true}});
  absl::StatusOr<CompiledProgram> compiled = Compile(model.program, model.Resolve(), rank);
  CHECK_OK(compiled.status());
  return *std::move(compiled);
}

bool Overlap(const LocalValue& a, const LocalValue& b) {
  return a.arena_offset < b.arena_offset + b.width && b.arena_offset < a.arena_offset + a.width;
}

// Values that ops after `op_index` read, and the logits, as far as they are written by then.
std::set<ValueId> LivingAfter(const CompiledProgram& program, std::size_t op_index) {
  std::set<ValueId> written, read = {program.logits}, living;
  for (std::size_t i = 0; i <= op_index; ++i) written.insert(program.ops[i].output);
  for (std::size_t i = op_index + 1; i < program.ops.size(); ++i) {
    read.insert(program.ops[i].inputs.begin(), program.ops[i].inputs.end());
  }
  std::set_intersection(written.begin(), written.end(), read.begin(), read.end(), std::inserter(living, living.end()));
  return living;
}

void ExpectNothingLivingOverwritten(const CompiledProgram& program) {
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const ValueId output = program.ops[i].output;
    for (const ValueId other : LivingAfter(program, i)) {
      EXPECT_FALSE(other != output && Overlap(program.values[other], program.values[output]))
          << program.values[output].name << " lies on " << program.values[other].name;
    }
  }
}

TEST(PlanArena, NeverOverwritesWhatIsReadLater) {
  for (const Rank rank : {Rank{0, 1}, Rank{0, 3}, Rank{2, 3}, Rank{5, 6}}) {
    ExpectNothingLivingOverwritten(CompileSmallLlama(rank));
  }
}

// x + 2x + x: what may be computed in place has an input that is read again.
TEST(PlanArena, SparesAnInputThatIsReadAgain) {
  const Axis axis = SingleBlock(37, 1, Division::kUneven, "features");
  ProgramBuilder builder({});
  const ValueId x = builder.Embed("embed", axis, axis);
  const ValueId sum = builder.Add("sum", x, builder.Scale(x, 2));
  const ValueId total = builder.Add("total", sum, x);
  const Program program = std::move(builder).Finish(total);
  const auto plan = ResolvedPlan::Resolve({}, program, StrategyRegistry::BuiltIn());
  const absl::StatusOr<CompiledProgram> compiled = Compile(program, *plan, {0, 1});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ExpectNothingLivingOverwritten(*compiled);
  EXPECT_EQ(compiled->arena_width, 2 * 48);
}

TEST(PlanArena, OverwritesInputsOnlyWhereTheOpAllowsIt) {
  const CompiledProgram program = CompileSmallLlama({1, 3});
  for (const LocalOp& op : program.ops) {
    const bool in_place = std::holds_alternative<AllReduce>(op.kind) || std::holds_alternative<LocalRope>(op.kind) ||
                          std::holds_alternative<LocalAddBias>(op.kind) || std::holds_alternative<AddOp>(op.kind);
    for (const ValueId input : op.inputs) {
      EXPECT_FALSE(!in_place && Overlap(program.values[input], program.values[op.output])) << op.module;
    }
    if (std::holds_alternative<AllReduce>(op.kind)) {
      EXPECT_EQ(program.values[op.inputs[0]].arena_offset, program.values[op.output].arena_offset);
    }
  }
}

TEST(PlanArena, KeepsValuesOnCacheLinesAndInside) {
  const CompiledProgram program = CompileSmallLlama({0, 3});
  for (const LocalValue& value : program.values) {
    EXPECT_EQ(value.arena_offset % kArenaAlignmentElements, 0) << value.name;
    EXPECT_LE(value.arena_offset + value.width, program.arena_width) << value.name;
  }
}

TEST(PlanArena, NeedsNoMoreRoomForMoreLayers) {
  const auto width = [](int layers) {
    const SmallModel model = MakeLlama({{"num_hidden_layers", layers}});
    return Compile(model.program, model.Resolve(), {0, 1})->arena_width;
  };
  EXPECT_EQ(width(2), width(9));
  // hidden, q, k, v with their rounding to 16, and something to spare.
  EXPECT_LE(width(2), 6 * 32);
}

}  // namespace
}  // namespace trireme::sharding
