// kernels/add.h. Sums, element by element, of [rows, dim] float32, row-major, contiguous. Row-invariant;
// nothing is allocated. REQUIRES: rows >= 0, dim >= 0.
#pragma once
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor.h"

namespace trireme::kernels::cpu {

// out = a + b. `out` may be `a` or `b`.
void Add(const float* a, const float* b, RowsByDim shape, float* out, ThreadPool& pool);

// out[r, :] = x[r, :] + bias for every row r; bias is [dim]. `out` may be `x`. (A row-parallel bias, which is
// added after the all-reduce. Product adds its own.)
void AddBias(const float* x, const float* bias, RowsByDim shape, float* out, ThreadPool& pool);

// out = x · factor. `out` may be `x`.
void Scale(const float* x, float factor, RowsByDim shape, float* out, ThreadPool& pool);

}  // namespace trireme::kernels::cpu
