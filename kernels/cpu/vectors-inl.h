// What the vector kernels share. Compiled once per instruction set, so it has Highway's guard instead of `#pragma
// once`.
#if defined(TRIREME_KERNELS_CPU_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_VECTORS_INL_H_
#undef TRIREME_KERNELS_CPU_VECTORS_INL_H_
#else
#define TRIREME_KERNELS_CPU_VECTORS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes of float32, the width that the layouts here are made for.
using FloatTag = hn::CappedTag<float, 16>;
using FloatVector = hn::Vec<FloatTag>;
inline constexpr FloatTag kFloatTag;
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(FloatTag()));

HWY_INLINE FloatVector LoadVector(const float* p) { return hn::LoadU(kFloatTag, p); }

// Widens, exactly.
HWY_INLINE FloatVector LoadVector(const Bfloat16* p) {
  const hn::Rebind<std::uint16_t, FloatTag> half_tag;
  const hn::RebindToUnsigned<FloatTag> bits_tag;
  const auto halves = hn::LoadU(half_tag, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(kFloatTag, hn::ShiftLeft<16>(hn::PromoteTo(bits_tag, halves)));
}

// The first `count` lanes, count < kLanes; the others are 0. Reads nothing beyond.
HWY_INLINE FloatVector LoadFirst(const float* p, std::int64_t count) {
  alignas(64) float lanes[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return hn::Load(kFloatTag, lanes);
}

HWY_INLINE void StoreFirst(FloatVector v, float* p, std::int64_t count) {
  alignas(64) float lanes[kLanes];
  hn::Store(v, kFloatTag, lanes);
  for (std::int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

HWY_INLINE float Sum(FloatVector v) { return hn::GetLane(hn::SumOfLanes(kFloatTag, v)); }
HWY_INLINE float Maximum(FloatVector v) { return hn::GetLane(hn::MaxOfLanes(kFloatTag, v)); }

// Exp keeps to Highway's range: up to +104, where it is infinite already. It gives 0 for a NaN, which would hide one.
HWY_INLINE FloatVector ExpOrNan(FloatVector v) { return hn::IfThenElse(hn::IsNaN(v), v, hn::Exp(kFloatTag, v)); }

// Calls f(load, store) for each vector of [0, n), where load(p) gives the lanes of p[i…] and store(v, p)
// writes them: so that a loop body is written once for whole vectors and for the rest. Lane for lane the
// arithmetic is the same.
template <typename F>
HWY_INLINE void ForEachVector(std::int64_t n, const F& f) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    f([i](const float* p) HWY_ATTR { return hn::LoadU(kFloatTag, p + i); },
      [i](FloatVector v, float* p) HWY_ATTR { hn::StoreU(v, kFloatTag, p + i); });
  }
  if (i == n) return;
  f([i, n](const float* p) HWY_ATTR { return LoadFirst(p + i, n - i); },
    [i, n](FloatVector v, float* p) HWY_ATTR { StoreFirst(v, p + i, n - i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // guard
