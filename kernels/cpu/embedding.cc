#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/cpu/grain.h"

namespace trireme::kernels::cpu {
namespace {

float Widen(float v) { return v; }
float Widen(Bfloat16 v) { return ToFloat(v); }

template <typename Element>
void EmbedRow(const Element* table_row, std::int64_t dim, float* out) {
  std::transform(table_row, table_row + dim, out, [](Element e) { return Widen(e); });
}

}  // namespace

void Embed(const Matrix& table, std::int64_t begin, std::span<const std::int32_t> ids, float* out, ThreadPool& pool) {
  const std::int64_t dim = table.columns;
  const auto embed = [&]<typename Element>(const Element* data) {
    pool.ParallelFor(std::ssize(ids), MinRows(dim), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const std::int64_t index = ids[static_cast<std::size_t>(r)] - begin;
        if (index >= 0 && index < table.rows) {
          EmbedRow(data + index * dim, dim, out + r * dim);
        } else {
          std::fill_n(out + r * dim, dim, 0.0f);
        }
      }
    });
  };
  switch (table.type) {
    case ElementType::kFloat32:
      return embed(static_cast<const float*>(table.data));
    case ElementType::kBfloat16:
      return embed(static_cast<const Bfloat16*>(table.data));
  }
}

}  // namespace trireme::kernels::cpu
