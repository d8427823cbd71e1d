#include "kernels/gather_rows.h"

#include <algorithm>

#include "kernels/cpu/grain.h"

namespace trireme::kernels::cpu {

void GatherRows(const float* x, std::span<const std::int32_t> rows, std::int64_t dim, float* out, ThreadPool& pool) {
  pool.ParallelFor(std::ssize(rows), MinRows(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(x + rows[static_cast<std::size_t>(i)] * dim, dim, out + i * dim);
    }
  });
}

}  // namespace trireme::kernels::cpu
