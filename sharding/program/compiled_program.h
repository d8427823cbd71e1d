// What one rank runs: the layout compiler's result (compile.h). A flat list that the worker executes
// and describe.h sums up for `trireme plan`. Plain data.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sharding/placement/placement.h"
#include "sharding/program/program.h"

namespace trireme::sharding {

using LocalParameterId = int;  // index into CompiledProgram::parameters

// A part of a tensor of the checkpoint. Two modules that share a tensor and cut it alike share one of these.
struct LocalParameter {
  std::string name;
  std::vector<std::int64_t> full_shape;
  std::vector<Intervals> slices;  // one list per dimension
  Placement placement;

  std::vector<std::int64_t> local_shape() const;
  std::int64_t num_elements() const;  // local
};

// A value on this rank: [rows, width] float32.
struct LocalValue {
  std::string name;
  Rows rows = Rows::kTokens;
  std::int64_t width = 0;
  Placement placement;  // Shard and StridedShard have dim -1, the features
  // Where it lies in the activation arena, in elements per row: element (r, c) of a step with at most R rows
  // is at arena_offset · R + r · width + c. Offsets are multiples of 16, so that values begin on cache lines.
  // Values that live at the same time do not overlap. The output of AllReduce lies where its input lies; that
  // of LocalRope, LocalAddBias, ScaleOp and AddOp may lie exactly where an input lies that is not used again.
  std::int64_t arena_offset = 0;
};

// Token ids outside `vocabulary` give zero rows (and then the output is Partial).
struct LocalEmbed {
  LocalParameterId table = 0;
  Interval vocabulary;
};
struct LocalLinear {
  // Local shape [out, in]. On an empty rank either may be 0; where `in` is, the output is zeros (plus bias).
  LocalParameterId weight = 0;
  std::optional<LocalParameterId> bias;
};
struct LocalRmsNorm {
  LocalParameterId weight = 0;
  float epsilon = 0;
};
struct LocalRope {
  int table = 0;
  int head_dim = 0;
  int num_heads = 0;  // local
};
struct LocalAttention {
  int kv_group = 0;
  int layer_in_group = 0;
  int num_heads = 0;     // local
  int num_kv_heads = 0;  // local, divides num_heads
  int head_dim = 0;
  float scale = 1;
};
// A row-parallel bias, added once the sum is complete.
struct LocalAddBias {
  LocalParameterId bias = 0;
};

// Partial → Replicate: sums over ranks, in rank order. In place.
struct AllReduce {};
// Shard or StridedShard → Replicate. `parts[r]` are the places of rank r's features in the full row, in its
// local order; parts may overlap where ranks hold the same head.
struct AllGather {
  std::vector<Intervals> parts;
};
// Partial → Shard: sums over ranks and keeps parts[this rank].
struct ReduceScatter {
  std::vector<Intervals> parts;
};
// Replicate → Shard or StridedShard: keeps `part`, no communication.
struct LocalSlice {
  Intervals part;
};

using LocalOpKind =
    std::variant<LocalEmbed, LocalLinear, LocalRmsNorm, LocalRope, LocalAttention, GatedActivationOp, AddOp, ScaleOp,
                 SelectRowsOp, LocalAddBias, AllReduce, AllGather, ReduceScatter, LocalSlice>;

// How an op uses a parameter.
enum class UsedAs {
  kTable,   // rows are picked
  kWeight,  // of a product
  kVector,  // a norm's weight, a bias
};

struct UsedParameter {
  LocalParameterId id = 0;
  UsedAs as = UsedAs::kTable;
};

// The parameters of an op, in the order of its definition.
std::vector<UsedParameter> ParametersOf(const LocalOpKind& kind);

// Whether the output may lie where an input of its size lies.
bool MayWriteOverInput(const LocalOpKind& kind);

// "all_reduce" and so on for the ops that wait for other ranks; empty for those that do not.
std::optional<std::string> CollectiveName(const LocalOpKind& kind);

struct LocalOp {
  std::string module;    // as Op::module; of the producer for a collective
  std::string strategy;  // the plan's strategy for that module; empty if it has none
  LocalOpKind kind;
  std::vector<ValueId> inputs;  // into CompiledProgram::values
  ValueId output = 0;
};

struct LocalKvGroup {
  int num_layers = 0;
  int num_kv_heads = 0;  // local
  int head_dim = 0;
};

struct CompiledProgram {
  Rank rank;
  std::vector<LocalParameter> parameters;
  std::vector<LocalValue> values;
  std::vector<LocalOp> ops;
  std::vector<RopeTable> rope_tables;
  std::vector<LocalKvGroup> kv_groups;
  ValueId logits = 0;
  // The ids whose logits this rank holds: everything if the head is gathered, else its part of the vocabulary.
  Interval logits_vocabulary;
  std::int64_t vocabulary = 0;
  std::int64_t arena_width = 0;  // elements per row of the whole arena
};

}  // namespace trireme::sharding
