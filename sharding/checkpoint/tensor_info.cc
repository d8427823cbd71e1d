#include "sharding/checkpoint/tensor_info.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace trireme::sharding {

std::int64_t TensorInfo::num_elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::string ShapeToString(const std::vector<std::int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::optional<std::int64_t> CheckedByteSize(DType dtype, const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) return std::nullopt;
  }
  const DTypeTraits& traits = TraitsOf(dtype);
  std::int64_t bytes = 0;
  if (elements % traits.block_elements != 0) return std::nullopt;
  if (__builtin_mul_overflow(elements / traits.block_elements, traits.block_bytes, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace trireme::sharding
