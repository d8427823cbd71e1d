// What the fuzz targets of checkpoint parsers do with a tensor that a parser let through.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "sharding/checkpoint/byte_source.h"
#include "sharding/checkpoint/read_plan.h"
#include "sharding/checkpoint/tensor_info.h"
#include "sharding/checkpoint/tensor_reader.h"

namespace trireme::sharding {

// It must lie within the file and be readable: reads all of the tensor, and its last element.
inline void ExerciseTensor(const ByteSource& file, const TensorInfo& tensor) {
  CHECK_GE(tensor.byte_offset, 0);
  CHECK_GE(tensor.byte_size, 0);
  CHECK_LE(tensor.byte_size, file.size() - tensor.byte_offset);
  CHECK_EQ(tensor.byte_size, CheckedByteSize(tensor.dtype, tensor.shape).value());
  if (!IsReadable(tensor.dtype)) return;
  std::vector<Intervals> whole;
  std::vector<Intervals> last;
  for (const std::int64_t extent : tensor.shape) {
    whole.push_back({{0, extent}});
    last.push_back({{extent - (extent > 0 ? 1 : 0), extent}});
  }
  std::vector<float> out(static_cast<std::size_t>(tensor.num_elements()));
  CHECK_OK(CheckSlices(tensor, whole));
  CHECK_OK(ReadRuns(file, tensor, PlanRead(tensor, whole), DType::kF32, out.data()));
  CHECK_OK(ReadRuns(file, tensor, PlanRead(tensor, last), DType::kBF16, out.data()));
}

}  // namespace trireme::sharding
