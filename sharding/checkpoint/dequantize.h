// GGUF blocks, and plain floats, to float32.
//
// Values are bit-equal with gguf.quants.dequantize: integer parts are exact, products and sums are rounded in
// the order in which that package does them, and are never fused.
#pragma once
#include <cstddef>
#include <cstdint>

#include "sharding/checkpoint/dtype.h"

namespace trireme::sharding {

// Writes `num_blocks` blocks of `dtype` as num_blocks · block_elements floats. `blocks` needs no alignment.
// REQUIRES: IsReadable(dtype), num_blocks >= 0; `blocks` and `out` do not overlap.
void Dequantize(DType dtype, const std::byte* blocks, std::int64_t num_blocks, float* out);

}  // namespace trireme::sharding
