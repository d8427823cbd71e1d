// kernels/rms_norm.h. For every row r:
//     out[r, :] = x[r, :] / sqrt(mean(x[r, :]²) + epsilon) · weight
//
//   x, out   [rows, dim] float32, row-major, contiguous; `out` may be `x`, else they do not overlap
//   weight   [dim] float32
//
// The mean is summed in float32, in an order that depends on dim alone: row-invariant. Nothing is allocated.
// As Transformers' LlamaRMSNorm, in float32.
// REQUIRES: rows >= 0, dim > 0.
#pragma once
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor.h"

namespace trireme::kernels::cpu {

void RmsNorm(const float* x, const float* weight, RowsByDim shape, float epsilon, float* out, ThreadPool& pool);

}  // namespace trireme::kernels::cpu
