// Which stretches of a tensor's elements a slice is made of. Pure arithmetic.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "sharding/checkpoint/tensor_info.h"
#include "sharding/placement/interval.h"

namespace trireme::sharding {

// Consecutive elements of the flattened tensor as it lies in the file, and of the flattened slice.
struct ElementRun {
  std::int64_t in_file = 0;   // index of the first element in the tensor
  std::int64_t in_slice = 0;  // index of the first element in the slice
  std::int64_t count = 0;     // > 0

  friend bool operator==(const ElementRun&, const ElementRun&) = default;
};

// InvalidArgument unless `slices` has, for every dimension, ascending and disjoint intervals within its extent.
absl::Status CheckSlices(const TensorInfo& tensor, std::span<const Intervals> slices);

// The slice as few runs as possible, ascending by in_file.
// REQUIRES: CheckSlices(tensor, slices).ok().
std::vector<ElementRun> PlanRead(const TensorInfo& tensor, std::span<const Intervals> slices);

}  // namespace trireme::sharding
