// Reads runs of a tensor's elements and converts them.
#pragma once
#include <span>

#include "absl/status/status.h"
#include "sharding/checkpoint/byte_source.h"
#include "sharding/checkpoint/read_plan.h"
#include "sharding/checkpoint/tensor_info.h"

namespace trireme::sharding {

// Writes each run to its place in `out`: floats for DType::kF32, bfloat16 for DType::kBF16.
//
// Reads the blocks that hold the runs and nothing between them; neighbouring and overlapping ones together,
// in pieces of at most kMaxReadBytes. (A block that two runs share is read twice if it falls on the edge of
// two pieces.) REQUIRES: IsReadable(tensor.dtype); `as` is kF32 or kBF16; `runs` are within the tensor and
// ascend by in_file.
absl::Status ReadRuns(const ByteSource& file, const TensorInfo& tensor, std::span<const ElementRun> runs, DType as,
                      void* out);

inline constexpr std::int64_t kMaxReadBytes = std::int64_t{1} << 20;

}  // namespace trireme::sharding
