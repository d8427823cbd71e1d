// kernels/gather_rows.h. Copies chosen rows (those whose logits are wanted, say):
//     out[i, :] = x[rows[i], :]
//
//   x, out   [·, dim] float32, row-major, contiguous; they do not overlap
//   rows     indices into x, in any order, repeats allowed
//
// Nothing is allocated.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/cpu/thread_pool.h"

namespace trireme::kernels::cpu {

void GatherRows(const float* x, std::span<const std::int32_t> rows, std::int64_t dim, float* out, ThreadPool& pool);

}  // namespace trireme::kernels::cpu
