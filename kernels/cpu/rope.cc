#include "kernels/rope.h"

#include <cmath>

#include "base/check.h"
#include "kernels/cpu/grain.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

void RotateHead(float* head, const float* cosines, const float* sines, std::int64_t half_dim) {
  ForEachVector(half_dim, [&](auto load, auto store) HWY_ATTR {
    const FloatVector a = load(head), b = load(head + half_dim);
    const FloatVector c = load(cosines), s = load(sines);
    store(hn::NegMulAdd(b, s, hn::Mul(a, c)), head);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), head + half_dim);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu {

HWY_EXPORT(RotateHead);

RopeTable::RopeTable(std::span<const float> inverse_frequencies, std::int64_t max_positions, float attention_factor)
    : half_dim_(std::ssize(inverse_frequencies)), max_positions_(max_positions) {
  cosines_.reserve(static_cast<std::size_t>(half_dim_ * max_positions));
  sines_.reserve(cosines_.capacity());
  for (std::int64_t p = 0; p < max_positions; ++p) {
    for (const float frequency : inverse_frequencies) {
      const double angle = static_cast<float>(p) * frequency;
      cosines_.push_back(static_cast<float>(std::cos(angle)) * attention_factor);
      sines_.push_back(static_cast<float>(std::sin(angle)) * attention_factor);
    }
  }
}

void ApplyRope(const HeadRows& x, const std::int32_t* positions, const RopeTable& table, ThreadPool& pool) {
  CHECK_LE(table.rotary_dim(), x.head_dim);
  pool.ParallelFor(x.rows, MinRows(x.num_heads * x.head_dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      CHECK_GE(positions[r], 0);
      CHECK_LT(positions[r], table.max_positions());
      for (std::int64_t h = 0; h < x.num_heads; ++h) {
        HWY_DYNAMIC_DISPATCH(RotateHead)
        (x.data + r * x.row_stride + h * x.head_dim, table.cosines(positions[r]), table.sines(positions[r]),
         table.rotary_dim() / 2);
      }
    }
  });
}

}  // namespace trireme::kernels::cpu
#endif  // HWY_ONCE
