#include "kernels/rms_norm.h"

#include <cmath>

#include "kernels/cpu/grain.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

float SumOfSquares(const float* x, std::int64_t dim) {
  // Four sums, so that additions do not wait for each other.
  constexpr std::int64_t kSums = 4;
  FloatVector sums[kSums] = {hn::Zero(kFloatTag), hn::Zero(kFloatTag), hn::Zero(kFloatTag), hn::Zero(kFloatTag)};
  std::int64_t i = 0;
  for (; i + kSums * kLanes <= dim; i += kSums * kLanes) {
    HWY_UNROLL(4)
    for (std::int64_t s = 0; s < kSums; ++s) {
      const FloatVector v = LoadVector(x + i + s * kLanes);
      sums[s] = hn::MulAdd(v, v, sums[s]);
    }
  }
  ForEachVector(dim - i, [&](auto load, auto) HWY_ATTR {
    const FloatVector v = load(x + i);
    sums[0] = hn::MulAdd(v, v, sums[0]);
  });
  return Sum(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

void NormRow(const float* x, const float* weight, std::int64_t dim, float epsilon, float* out) {
  const float mean = SumOfSquares(x, dim) / static_cast<float>(dim);
  const FloatVector factor = hn::Set(kFloatTag, 1.0f / std::sqrt(mean + epsilon));
  ForEachVector(dim,
                [&](auto load, auto store) HWY_ATTR { store(hn::Mul(hn::Mul(load(x), factor), load(weight)), out); });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu {

HWY_EXPORT(NormRow);

void RmsNorm(const float* x, const float* weight, RowsByDim shape, float epsilon, float* out, ThreadPool& pool) {
  pool.ParallelFor(shape.rows, MinRows(shape.dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(NormRow)(x + r * shape.dim, weight, shape.dim, epsilon, out + r * shape.dim);
    }
  });
}

}  // namespace trireme::kernels::cpu
#endif  // HWY_ONCE
