// kernels/embedding.h. Rows of a table that holds the ids [begin, begin + table.rows) of a vocabulary:
//     out[r, :] = table[ids[r] − begin, :]   where the table holds ids[r], else zeros
// so that the sum over the ranks of a vocabulary cut among them is the embedding.
//
//   table   [ids held, dim] float32 or bfloat16 (widened, exactly)
//   ids     [rows]; any value is legal
//   out     [rows, dim] float32, row-major, contiguous; dim = table.columns
//
// An empty table is legal. Row-invariant; nothing is allocated.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor.h"

namespace trireme::kernels::cpu {

void Embed(const Matrix& table, std::int64_t begin, std::span<const std::int32_t> ids, float* out, ThreadPool& pool);

}  // namespace trireme::kernels::cpu
