// Cuts a tensor in memory by intervals, and the inverse: what shard and unshard, gathers and tests are made of.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sharding/placement/interval.h"

namespace trireme::sharding {

// A part of a row-major, contiguous tensor: one list of intervals for each dimension, the part being their product.
struct TensorSlices {
  std::vector<std::int64_t> full_shape;
  std::vector<Intervals> slices;  // as many as dimensions
  std::size_t element_bytes = 0;

  std::size_t full_bytes() const;
  std::size_t local_bytes() const;
};

// Copies the part out of `full` into `local`, which is row-major and contiguous too.
// REQUIRES: full.size() == full_bytes(), local.size() == local_bytes(); they do not overlap.
void CutTensor(const TensorSlices& part, std::span<const std::byte> full, std::span<std::byte> local);

// The inverse: puts `local` back to its places in `full` and leaves the rest of `full` as it is. Done for the
// parts of all ranks it restores the tensor; where parts overlap (a KV head that several ranks hold), the
// last one stays. REQUIRES: as CutTensor.
void PlaceTensor(const TensorSlices& part, std::span<const std::byte> local, std::span<std::byte> full);

}  // namespace trireme::sharding
