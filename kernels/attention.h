// kernels/attention.h. Causal attention of a ragged batch over a paged cache. For the row at absolute
// position p of a sequence, and query head h, which reads KV head h / (num_heads / num_kv_heads):
//     s_j = scale · q · key_j   for j in [0, p]
//     out = Σ_j softmax(s)_j · value_j
// The keys and values of the batch's own rows must be in the cache already (WriteKv).
//
//   q     rows of num_heads · head_dim float32, `q_row_stride` elements apart
//   out   [rows, num_heads · head_dim] float32, contiguous; may be q where q is contiguous too
//
// Sums are float32. Each row walks the cache in blocks at absolute positions [0, block_size), [block_size,
// …), with running maximum and sum, so that its bits depend on its own query, its own context and block_size
// alone: row-invariant, whatever the chunks in which the prompt came, whoever shares the batch. In a bfloat16
// cache the stored keys and values are widened; queries are not rounded.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/cpu/thread_pool.h"
#include "kernels/kv_cache.h"

namespace trireme::kernels::cpu {

struct AttentionParameters {
  std::int64_t num_heads = 0;  // a multiple of the cache's num_kv_heads
  float scale = 1.0f;          // 1 / sqrt(head_dim) as a rule
};

struct AttentionRows {
  const float* q = nullptr;
  std::int64_t q_row_stride = 0;
  float* out = nullptr;
};

// Rows that belong to no sequence are left as they are. Nothing is allocated.
// REQUIRES: num_heads % num_kv_heads == 0; block indices in [0, num_blocks).
void PagedAttention(const AttentionRows& rows, std::span<const SequenceRows> sequences, const KvCache& cache,
                    const AttentionParameters& parameters, ThreadPool& pool);

}  // namespace trireme::kernels::cpu
