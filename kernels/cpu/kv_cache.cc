#include "kernels/kv_cache.h"

#include "base/check.h"
#include "kernels/cpu/grain.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/cpu/ragged.h"

namespace trireme::kernels::cpu {
namespace {

void Put(float v, float* out) { *out = v; }
void Put(float v, Bfloat16* out) { *out = ToBfloat16(v); }

// Stores a token's keys or values: for each head, elements `stride` apart.
struct Destination {
  std::int64_t offset_in_head;
  std::int64_t stride;
};
template <typename Element>
void WriteToken(const float* row, const KvCacheShape& shape, std::int64_t block, Destination to, Element* cache) {
  for (std::int64_t h = 0; h < shape.num_kv_heads; ++h) {
    Element* out = cache + KvHeadOffset(shape, block, h) + to.offset_in_head;
    for (std::int64_t d = 0; d < shape.head_dim; ++d) Put(row[h * shape.head_dim + d], out + d * to.stride);
  }
}

template <typename Element>
void WriteRow(const KvRows& rows, const SequenceRows& sequence, std::int64_t query, const KvCache& cache) {
  const KvCacheShape& shape = cache.shape;
  const std::int64_t position = sequence.context_length + query;
  const std::int64_t block = sequence.block_table[position / shape.block_size];
  CHECK_GE(block, 0);
  CHECK_LT(block, shape.num_blocks);
  const std::int64_t in_block = position % shape.block_size;
  const std::int64_t row = (sequence.query_begin + query) * rows.row_stride;
  WriteToken(rows.k + row, shape, block, {in_block, shape.block_size}, static_cast<Element*>(cache.keys));
  WriteToken(rows.v + row, shape, block, {in_block * shape.head_dim, 1}, static_cast<Element*>(cache.values));
}

}  // namespace

void CheckKvCacheShape(const KvCacheShape& shape) {
  CHECK_GE(shape.block_size, 1);
  CHECK_LE(shape.block_size, kMaxKvBlockSize);
  CHECK_GE(shape.head_dim, 1);
  CHECK_LE(shape.head_dim, kMaxHeadDim);
}

void WriteKv(const KvRows& rows, std::span<const SequenceRows> sequences, const KvCache& cache, ThreadPool& pool) {
  CheckKvCacheShape(cache.shape);
  const auto num_queries = [](const SequenceRows& s) { return s.num_queries; };
  const auto write = [&]<typename Element>(Element) {
    const std::int64_t elements = 2 * cache.shape.num_kv_heads * cache.shape.head_dim;
    pool.ParallelFor(CountPieces(sequences, num_queries), MinRows(elements), [&](std::int64_t begin, std::int64_t end) {
      RaggedCursor cursor(sequences, num_queries);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto place = cursor.Find(i);
        WriteRow<Element>(rows, place.sequence, place.index, cache);
      }
    });
  };
  cache.shape.type == ElementType::kFloat32 ? write(float{}) : write(Bfloat16{});
}

}  // namespace trireme::kernels::cpu
