// Places a compiled program's values in one activation arena: the last step of the layout compiler (compile.h).
#pragma once
#include "sharding/program/compiled_program.h"

namespace trireme::sharding {

// Offsets are multiples of this, so that with 4-byte elements a value begins on a cache line for any number of rows.
inline constexpr std::int64_t kArenaAlignmentElements = 16;

// Sets LocalValue::arena_offset and CompiledProgram::arena_width. A value lives from the op that writes it to
// the last that reads it (the logits to the end). First fit, in order of execution; an output takes the place
// of an input that dies where LocalValue allows that, and AllReduce always.
void PlanArena(CompiledProgram& program);

}  // namespace trireme::sharding
