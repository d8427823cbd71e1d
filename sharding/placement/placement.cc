#include "sharding/placement/placement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::sharding {
namespace {

// Rank r of N holds units [r·c, (r+1)·c) with c = ceil(units / N), as far as there are any.
Interval CeilCut(std::int64_t units, Rank rank) {
  const std::int64_t each = (units + rank.world - 1) / rank.world;
  return {std::min(rank.index * each, units), std::min((rank.index + 1) * each, units)};
}

absl::StatusOr<Interval> EvenCut(std::int64_t units, Rank rank, const std::string& what) {
  if (units % rank.world != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(units, " ", what, " cannot be divided evenly among ", rank.world, " ranks"));
  }
  return CeilCut(units, rank);
}

// Neighbouring ranks share a unit, so that the queries of a KV head find it on their own rank.
absl::StatusOr<Interval> EvenOrReplicatedCut(std::int64_t units, Rank rank, const std::string& what) {
  if (units > 0 && rank.world % units == 0) {
    const std::int64_t unit = rank.index / (rank.world / units);
    return Interval{unit, unit + 1};
  }
  if (units % rank.world != 0) {
    return absl::InvalidArgumentError(absl::StrCat(units, " ", what, " can neither be divided evenly among ",
                                                   rank.world, " ranks nor be replicated evenly to them"));
  }
  return CeilCut(units, rank);
}

absl::StatusOr<Interval> CutUnits(const AxisBlock& block, Rank rank) {
  const std::int64_t units = block.extent / block.unit;
  switch (block.division) {
    case Division::kUneven:
      return CeilCut(units, rank);
    case Division::kEven:
      return EvenCut(units, rank, block.what);
    case Division::kEvenOrReplicated:
      return EvenOrReplicatedCut(units, rank, block.what);
  }
  CHECK(false) << "division " << static_cast<int>(block.division);
  return Interval{};
}

void AppendJoining(Interval interval, Intervals& intervals) {
  if (interval.empty()) return;
  if (!intervals.empty() && intervals.back().end == interval.begin) {
    intervals.back().end = interval.end;
  } else {
    intervals.push_back(interval);
  }
}

}  // namespace

std::int64_t Axis::extent() const {
  std::int64_t total = 0;
  for (const AxisBlock& block : blocks) total += block.extent;
  return total;
}

Axis SingleBlock(std::int64_t extent, std::int64_t unit, Division division, std::string what) {
  CHECK_GT(unit, 0) << what;
  CHECK_EQ(extent % unit, 0) << what << ": an extent of " << extent << " in units of " << unit;
  return Axis{{{.extent = extent, .unit = unit, .division = division, .what = std::move(what)}}};
}

std::string ToString(const Placement& placement) {
  struct Printer {
    std::string operator()(const Replicate&) const { return "replicate"; }
    std::string operator()(const Shard& shard) const { return absl::StrCat("shard(", shard.dim, ")"); }
    std::string operator()(const StridedShard& shard) const { return absl::StrCat("strided_shard(", shard.dim, ")"); }
    std::string operator()(const Partial&) const { return "partial"; }
  };
  return std::visit(Printer(), placement);
}

absl::StatusOr<Intervals> CutAxis(const Axis& axis, Rank rank) {
  CHECK(rank.index >= 0 && rank.index < rank.world) << "rank " << rank.index << " of " << rank.world;
  Intervals intervals;
  std::int64_t block_begin = 0;
  for (const AxisBlock& block : axis.blocks) {
    ASSIGN_OR_RETURN(const Interval units, CutUnits(block, rank));
    AppendJoining({block_begin + units.begin * block.unit, block_begin + units.end * block.unit}, intervals);
    block_begin += block.extent;
  }
  return intervals;
}

absl::StatusOr<std::vector<Intervals>> CutAxisForAll(const Axis& axis, int world) {
  std::vector<Intervals> parts(world);
  for (int index = 0; index < world; ++index) {
    ASSIGN_OR_RETURN(parts[index], CutAxis(axis, {.index = index, .world = world}));
  }
  return parts;
}

absl::StatusOr<Axis> AxisForShard(const Axis& axis) {
  if (axis.blocks.size() == 1) return axis;
  return absl::InvalidArgumentError(absl::StrCat(
      "an axis of ", axis.blocks.size(), " blocks must be cut block by block (as packed_colwise does), not as one"));
}

absl::StatusOr<Axis> AxisForStridedShard(const Axis& axis) {
  if (axis.blocks.size() != 1) return axis;
  AxisBlock half = axis.blocks.front();
  if (half.extent % (2 * half.unit) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(half.extent, " elements of ", half.what, " in units of ", half.unit,
                                                   " cannot be taken as two equal blocks"));
  }
  half.extent /= 2;
  return Axis{{half, half}};
}

Intervals Whole(std::int64_t extent) { return extent == 0 ? Intervals{} : Intervals{{0, extent}}; }

Interval Span(const Intervals& intervals) {
  return intervals.empty() ? Interval{} : Interval{intervals.front().begin, intervals.back().end};
}

}  // namespace trireme::sharding
