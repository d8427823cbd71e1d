// The layout compiler: a program, a plan and a rank become a flat list of local ops with the collectives in it.
//
// Each value gets a layout. Where the layout that an op wants differs from the one a value has, the collective between
// them is inserted: Partial → Replicate all-reduce, Shard → Replicate all-gather, Partial → Shard reduce-scatter,
// Replicate → Shard local slice. Partial flows through add and scale and is reduced at its first other use, so two
// parallel branches cost one all-reduce. Replicate + Partial, and any edge with no rule, are refused by name. A
// row-parallel bias moves behind the reduction. Then values are laid out in one activation arena.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/plan/plan.h"
#include "sharding/program/compiled_program.h"
#include "sharding/program/program.h"

namespace trireme::sharding {

// InvalidArgument lists *all* problems, one a line: what a strategy refuses, what an axis forbids, edges with no rule.
absl::StatusOr<CompiledProgram> Compile(const Program& program, const ResolvedPlan& plan, Rank rank);

// The degrees in [1, max_degree] for which Compile succeeds on every rank.
std::vector<int> ValidTpDegrees(const Program& program, const ResolvedPlan& plan, int max_degree);

}  // namespace trireme::sharding
