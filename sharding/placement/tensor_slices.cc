#include "sharding/placement/tensor_slices.h"

#include <cstring>
#include <functional>

#include "base/check.h"

namespace trireme::sharding {
namespace {

// A stretch that is contiguous in both, in bytes.
using CopyRun = std::function<void(std::size_t full_begin, std::size_t local_begin, std::size_t bytes)>;

// Walks the runs of a part in local order.
class RunWalker {
 public:
  RunWalker(const TensorSlices& part, const CopyRun& copy) : part_(part), copy_(copy) {}

  void Walk() { WalkDimension(0, 0); }

 private:
  // `full_index`: index of the first element of the sub-tensor at hand, in units of that sub-tensor.
  void WalkDimension(std::size_t dimension, std::int64_t full_index) {
    if (dimension == part_.full_shape.size()) return CopyElements(full_index, 1);
    for (const Interval& interval : part_.slices[dimension]) {
      const std::int64_t begin = full_index * part_.full_shape[dimension] + interval.begin;
      if (dimension + 1 == part_.full_shape.size()) {
        CopyElements(begin, interval.size());
        continue;
      }
      for (std::int64_t i = 0; i < interval.size(); ++i) WalkDimension(dimension + 1, begin + i);
    }
  }

  void CopyElements(std::int64_t full_begin, std::int64_t count) {
    if (count == 0) return;
    const std::size_t bytes = count * part_.element_bytes;
    copy_(full_begin * part_.element_bytes, local_begin_, bytes);
    local_begin_ += bytes;
  }

  const TensorSlices& part_;
  const CopyRun& copy_;
  std::size_t local_begin_ = 0;
};

void CheckSizes(const TensorSlices& part, std::size_t full_bytes, std::size_t local_bytes) {
  CHECK_EQ(part.full_shape.size(), part.slices.size());
  CHECK_EQ(full_bytes, part.full_bytes());
  CHECK_EQ(local_bytes, part.local_bytes());
}

}  // namespace

std::size_t TensorSlices::full_bytes() const {
  std::size_t bytes = element_bytes;
  for (const std::int64_t extent : full_shape) bytes *= extent;
  return bytes;
}

std::size_t TensorSlices::local_bytes() const {
  std::size_t bytes = element_bytes;
  for (const Intervals& intervals : slices) bytes *= TotalSize(intervals);
  return bytes;
}

void CutTensor(const TensorSlices& part, std::span<const std::byte> full, std::span<std::byte> local) {
  CheckSizes(part, full.size(), local.size());
  RunWalker(part, [&](std::size_t full_begin, std::size_t local_begin, std::size_t bytes) {
    std::memcpy(local.data() + local_begin, full.data() + full_begin, bytes);
  }).Walk();
}

void PlaceTensor(const TensorSlices& part, std::span<const std::byte> local, std::span<std::byte> full) {
  CheckSizes(part, full.size(), local.size());
  RunWalker(part, [&](std::size_t full_begin, std::size_t local_begin, std::size_t bytes) {
    std::memcpy(full.data() + full_begin, local.data() + local_begin, bytes);
  }).Walk();
}

}  // namespace trireme::sharding
