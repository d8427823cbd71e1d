// kernels/kv_cache.h. Keys and values of past tokens, in blocks of `block_size` tokens. A sequence's block
// table names the blocks that hold its tokens: that at absolute position p lies in block_table[p /
// block_size], at offset p % block_size. Blocks may lie anywhere and be shared between sequences.
//
// Layout, per layer; keys and values apart:
//   keys     [num_blocks][num_kv_heads][head_dim][block_size]
//   values   [num_blocks][num_kv_heads][block_size][head_dim]
// Keys lie transposed so that the scores of neighbouring positions are computed side by side, without horizontal sums.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor.h"

namespace trireme::kernels::cpu {

struct KvCacheShape {
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 16;  // tokens; in [1, kMaxKvBlockSize], best a multiple of 16
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;  // in [1, kMaxHeadDim]
  ElementType type = ElementType::kFloat32;
};

inline constexpr std::int64_t kMaxKvBlockSize = 128;
inline constexpr std::int64_t kMaxHeadDim = 256;

// Size of the keys of one layer, and of its values.
constexpr std::int64_t KvCacheBytes(const KvCacheShape& shape) {
  return shape.num_blocks * shape.num_kv_heads * shape.block_size * shape.head_dim * ElementBytes(shape.type);
}

// One layer's cache, owned by the caller: KvCacheBytes(shape) at each pointer. Memory must be readable
// everywhere but need not be initialised with anything: what has not been written for a sequence is never
// used for it.
struct KvCache {
  void* keys = nullptr;
  void* values = nullptr;
  KvCacheShape shape;
};

// A sequence's part of a step's ragged batch: rows [query_begin, query_begin + num_queries), which are its
// tokens at absolute positions [context_length, context_length + num_queries).
struct SequenceRows {
  std::int64_t query_begin = 0;
  std::int64_t num_queries = 0;
  std::int64_t context_length = 0;            // tokens in the cache before this step
  const std::int32_t* block_table = nullptr;  // ceil((context_length + num_queries) / block_size) block indices
};

// Rows of num_kv_heads · head_dim float32, `row_stride` elements apart.
struct KvRows {
  const float* k = nullptr;
  const float* v = nullptr;
  std::int64_t row_stride = 0;
};

// Stores the rows of k and v at their positions (rounded to nearest even in a bfloat16 cache). Nothing is
// allocated. REQUIRES: no two rows of the batch go to the same place; block indices in [0, num_blocks).
void WriteKv(const KvRows& rows, std::span<const SequenceRows> sequences, const KvCache& cache, ThreadPool& pool);

}  // namespace trireme::kernels::cpu
