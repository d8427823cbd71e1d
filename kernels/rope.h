// kernels/rope.h. Rotary position embedding, half-split as in Transformers' rotate_half. For every row r at
// position p = positions[r], every head, and i in [0, rotary_dim / 2):
//     a = x[i], b = x[i + rotary_dim / 2]
//     x[i]                  = a · cos(p · f_i) − b · sin(p · f_i)
//     x[i + rotary_dim / 2] = b · cos(p · f_i) + a · sin(p · f_i)
// Elements of a head from rotary_dim on are left as they are (partial rotary).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/thread_pool.h"

namespace trireme::kernels::cpu {

// Cosines and sines of every position, [max_positions, rotary_dim / 2] each: made once, read by any thread.
class RopeTable {
 public:
  // `inverse_frequencies` are the f_i above, scaling (llama3, linear, …) already in them. As Transformers
  // does it, the angle p · f_i is rounded to float32; cosines and sines are multiplied by `attention_factor`
  // (1 but for yarn and longrope).
  RopeTable(std::span<const float> inverse_frequencies, std::int64_t max_positions, float attention_factor = 1.0f);

  std::int64_t rotary_dim() const { return 2 * half_dim_; }
  std::int64_t max_positions() const { return max_positions_; }
  const float* cosines(std::int64_t position) const { return cosines_.data() + position * half_dim_; }
  const float* sines(std::int64_t position) const { return sines_.data() + position * half_dim_; }

 private:
  std::int64_t half_dim_;
  std::int64_t max_positions_;
  std::vector<float> cosines_;
  std::vector<float> sines_;
};

// Heads side by side in rows that lie `row_stride` elements apart (num_heads · head_dim where x is
// contiguous; more where x is the q part of a fused qkv, say).
struct HeadRows {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t row_stride = 0;
};

// Rotates in place; called once for q and once for k. `positions` holds one absolute position a row.
// Row-invariant; nothing is allocated. REQUIRES: table.rotary_dim() <= head_dim; every position in [0,
// table.max_positions()).
void ApplyRope(const HeadRows& x, const std::int32_t* positions, const RopeTable& table, ThreadPool& pool);

}  // namespace trireme::kernels::cpu
