#include "sharding/program/arena.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace trireme::sharding {
namespace {

// Index of the last op that reads each value; its own op's for one that nobody reads.
std::vector<std::size_t> LastUses(const CompiledProgram& program) {
  std::vector<std::size_t> last(program.values.size(), 0);
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    last[program.ops[i].output] = i;
    for (const ValueId input : program.ops[i].inputs) last[input] = i;
  }
  last[program.logits] = program.ops.size();
  return last;
}

class ArenaPlanner {
 public:
  explicit ArenaPlanner(CompiledProgram& program) : program_(program), last_uses_(LastUses(program)) {}

  void Plan() {
    for (std::size_t i = 0; i < program_.ops.size(); ++i) PlaceOutput(i);
  }

 private:
  void PlaceOutput(std::size_t op_index) {
    const LocalOp& op = program_.ops[op_index];
    LocalValue& output = program_.values[op.output];
    if (const std::optional<ValueId> taken = DyingInput(op_index)) {
      output.arena_offset = program_.values[*taken].arena_offset;
      std::erase(alive_, *taken);
    } else {
      CHECK(!std::holds_alternative<AllReduce>(op.kind)) << op.module << ": a partial sum is used after its reduction";
      output.arena_offset = FirstFit(Size(output));
    }
    std::erase_if(alive_, [&](ValueId value) { return last_uses_[value] <= op_index; });
    program_.arena_width = std::max(program_.arena_width, output.arena_offset + Size(output));
    if (last_uses_[op.output] > op_index) alive_.push_back(op.output);
  }

  // An input whose place the op's output may take.
  std::optional<ValueId> DyingInput(std::size_t op_index) const {
    const LocalOp& op = program_.ops[op_index];
    if (!MayWriteOverInput(op.kind)) return std::nullopt;
    for (const ValueId input : op.inputs) {
      const LocalValue& candidate = program_.values[input];
      const LocalValue& output = program_.values[op.output];
      if (last_uses_[input] == op_index && candidate.width == output.width && candidate.rows == output.rows) {
        return input;
      }
    }
    return std::nullopt;
  }

  // The lowest place where `size` elements overlap no living value.
  std::int64_t FirstFit(std::int64_t size) {
    std::sort(alive_.begin(), alive_.end(),
              [&](ValueId a, ValueId b) { return program_.values[a].arena_offset < program_.values[b].arena_offset; });
    std::int64_t offset = 0;
    for (const ValueId value : alive_) {
      if (offset + size <= program_.values[value].arena_offset) break;
      offset = std::max(offset, program_.values[value].arena_offset + Size(program_.values[value]));
    }
    return offset;
  }

  static std::int64_t Size(const LocalValue& value) {
    return (value.width + kArenaAlignmentElements - 1) / kArenaAlignmentElements * kArenaAlignmentElements;
  }

  CompiledProgram& program_;
  std::vector<std::size_t> last_uses_;
  std::vector<ValueId> alive_;
};

}  // namespace

void PlanArena(CompiledProgram& program) { ArenaPlanner(program).Plan(); }

}  // namespace trireme::sharding
