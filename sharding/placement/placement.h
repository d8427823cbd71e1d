// How the elements of a tensor are spread over the ranks of one mesh axis. Pure arithmetic: no files, no devices.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/placement/interval.h"

namespace trireme::sharding {

// A rank and the number of ranks it belongs to.
struct Rank {
  int index = 0;  // in [0, world)
  int world = 1;  // > 0
};

// How a block of an axis may be divided.
enum class Division {
  // The ceil rule: rank r holds units [r·c, (r+1)·c) with c = ceil(units / world). The last ranks may be
  // short or empty. An MLP's intermediate width, the vocabulary.
  kUneven,
  // The same number of units on each rank, else refused. Query heads, whatever is gathered in equal parts.
  kEven,
  // As kEven; or, where the world is a multiple of the number of units, each unit is held by world / units
  // neighbouring ranks. KV heads.
  kEvenOrReplicated,
};

// A stretch of an axis that is cut by itself, in whole units.
struct AxisBlock {
  std::int64_t extent = 0;  // elements; a multiple of `unit`
  std::int64_t unit = 1;    // never divided: a head's width, a quantization group
  Division division = Division::kUneven;
  std::string what;  // for messages: "query heads", "intermediate width"
  friend bool operator==(const AxisBlock&, const AxisBlock&) = default;
};

// One axis of a tensor: blocks laid one after another; nearly always one. A fused gate|up has two, a fused q|k|v three.
struct Axis {
  std::vector<AxisBlock> blocks;

  std::int64_t extent() const;
  friend bool operator==(const Axis&, const Axis&) = default;
};

Axis SingleBlock(std::int64_t extent, std::int64_t unit, Division division, std::string what);

// Each rank holds everything.
struct Replicate {
  friend bool operator==(const Replicate&, const Replicate&) = default;
};
// Dimension `dim` is cut into contiguous runs, in rank order. Negative dims count from the end.
struct Shard {
  int dim = 0;
  friend bool operator==(const Shard&, const Shard&) = default;
};
// Each block of dimension `dim` is cut by itself; a rank holds its pieces one after another.
struct StridedShard {
  int dim = 0;
  friend bool operator==(const StridedShard&, const StridedShard&) = default;
};
// Each rank holds a summand of the whole tensor.
struct Partial {
  friend bool operator==(const Partial&, const Partial&) = default;
};

using Placement = std::variant<Replicate, Shard, StridedShard, Partial>;

// "replicate", "shard(0)", "strided_shard(0)", "partial".
std::string ToString(const Placement& placement);

// What `rank` holds of an axis whose every block is cut by itself: ascending, without empty intervals,
// touching ones joined. An empty rank gets an empty list.
//
// InvalidArgument, in one sentence that names `what`, the numbers and the degree, where a division forbids it.
absl::StatusOr<Intervals> CutAxis(const Axis& axis, Rank rank);

// CutAxis for each rank of `world`, in rank order.
absl::StatusOr<std::vector<Intervals>> CutAxisForAll(const Axis& axis, int world);

// The axis as Shard cuts it: of one block. InvalidArgument for an axis of several, whose parts would be mixed up.
absl::StatusOr<Axis> AxisForShard(const Axis& axis);

// The axis as StridedShard cuts it: its own blocks; an axis of one block is taken as two equal halves (a
// gate|up that the program knows nothing about). InvalidArgument if it cannot be halved in whole units.
absl::StatusOr<Axis> AxisForStridedShard(const Axis& axis);

// All of an axis of `extent` elements, as a list: empty for an extent of 0.
Intervals Whole(std::int64_t extent);

// From the first element held to the last; [0, 0) for an empty list.
Interval Span(const Intervals& intervals);

}  // namespace trireme::sharding
