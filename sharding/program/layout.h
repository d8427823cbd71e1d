// The layout of a value: its placement, and for the sharded ones which features each rank holds.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/placement/placement.h"

namespace trireme::sharding {

// What each rank holds of an axis, in rank order. Shared, since the layers of a model are alike.
using Parts = std::shared_ptr<const std::vector<Intervals>>;

struct Layout {
  Placement placement;  // Shard and StridedShard have dim -1, the features
  Parts parts;          // for Shard and StridedShard, else null

  static Layout Replicated() { return {Replicate{}, nullptr}; }
  static Layout Summand() { return {Partial{}, nullptr}; }
  static Layout Sharded(Parts parts) { return {Shard{-1}, std::move(parts)}; }
  static Layout Strided(Parts parts) { return {StridedShard{-1}, std::move(parts)}; }

  bool is_replicated() const { return std::holds_alternative<Replicate>(placement); }
  bool is_partial() const { return std::holds_alternative<Partial>(placement); }
  bool is_shard() const { return std::holds_alternative<Shard>(placement); }
  bool is_cut() const { return parts != nullptr; }

  // Elements per row on `rank` of a value of `full_width` features.
  std::int64_t Width(std::int64_t full_width, int rank) const;
};

// Equal placements, and every rank holds the same features.
bool operator==(const Layout& a, const Layout& b);

// Cuts axes for all ranks, each axis once. Not thread-safe.
class AxisCutter {
 public:
  explicit AxisCutter(int world) : world_(world) {}

  // Parts for Shard or StridedShard of `axis`; InvalidArgument as CutAxis, AxisForShard and AxisForStridedShard.
  absl::StatusOr<Parts> Cut(const Axis& axis, bool strided);

 private:
  struct Known {
    Axis axis;
    bool strided = false;
    absl::StatusOr<Parts> parts;
  };
  absl::StatusOr<Parts> CutAnew(const Axis& axis, bool strided) const;

  int world_;
  std::vector<Known> known_;  // a handful
};

// What is wrong with a program under a plan: each problem once, with the modules that have it.
class ProblemList {
 public:
  // Layers are not told apart: "model.layers.3.mlp" is noted as "model.layers.*.mlp".
  void Add(std::string_view module, std::string problem);

  bool empty() const { return problems_.empty(); }

  // InvalidArgument with a problem a line: "<problem> (<modules>)". REQUIRES: !empty().
  absl::Status ToStatus() const;

 private:
  struct Problem {
    std::string text;
    std::vector<std::string> modules;
  };
  std::vector<Problem> problems_;
};

}  // namespace trireme::sharding
