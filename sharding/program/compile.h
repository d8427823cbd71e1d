// The layout compiler: program, plan and rank become a flat list of local ops with the collectives in it.
//
// Each value gets a layout. What an op wants and gives follows from how its parameters are cut:
//
//   op                wants                                       gives
//   embed             token ids; table whole                      replicate
//                     table cut on the vocabulary                 partial
//                     table cut on the hidden axis                shard
//   linear            replicate; weight whole                     replicate
//                     replicate; weight cut on `out`              shard (strided_shard), as the weight
//                     shard, as the weight; cut on `in`           partial
//   rms norm          replicate                                   replicate
//   rope              whole heads                                 as its input
//   attention         q, k, v sharded by heads, or all replicate  as q
//   gated activation  both alike                                  alike
//   add               both alike, also partial                    alike
//   scale             anything                                    as its input
//   select rows       anything but partial                        as its input
//   (logits)          shard or replicate
//
// Where that differs from the layout that a value has, the collective between them is inserted: Partial →
// Replicate all-reduce, Shard → Replicate all-gather, Partial → Shard reduce-scatter, Replicate → Shard local
// slice. Two different ways of cutting, and a strategy that contradicts this table, are refused by name.
// Partial flows through add and scale and is reduced at its first other use, so two parallel branches cost
// one all-reduce; Replicate + Partial would count the former once per rank, so the latter is reduced first. A
// row-parallel bias moves behind the reduction. On one rank everything is Replicate. Last, values are laid
// out in one activation arena.
//
// All ranks get the same ops in the same order; only sizes, slices and head counts differ.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/plan/plan.h"
#include "sharding/program/compiled_program.h"
#include "sharding/program/program.h"

namespace trireme::sharding {

// InvalidArgument lists *all* problems, one a line, each with the modules that have it: what a strategy
// refuses, what an axis forbids, edges with no rule.
//
// REQUIRES: `plan` was resolved against `program`.
absl::StatusOr<CompiledProgram> Compile(const Program& program, const ResolvedPlan& plan, Rank rank);

// The degrees in [1, max_degree] for which Compile succeeds on every rank.
std::vector<int> ValidTpDegrees(const Program& program, const ResolvedPlan& plan, int max_degree);

}  // namespace trireme::sharding
