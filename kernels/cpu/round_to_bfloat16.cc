#include "kernels/cpu/round_to_bfloat16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/round_to_bfloat16.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

using BitsTag = hn::RebindToUnsigned<FloatTag>;
using Bits = hn::Vec<BitsTag>;

// The float32 bits of the nearest bfloat16, whose lower half is 0.
HWY_INLINE Bits Rounded(FloatVector v) {
  const BitsTag tag;
  const Bits bits = hn::BitCast(tag, v);
  const Bits odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(tag, 1u));
  const Bits nearest = hn::Add(bits, hn::Add(odd, hn::Set(tag, 0x7fffu)));
  const Bits quiet = hn::Or(bits, hn::Set(tag, 0x400000u));
  const auto is_nan = hn::MaskFromVec(hn::BitCast(tag, hn::VecFromMask(kFloatTag, hn::IsNaN(v))));
  return hn::And(hn::IfThenElse(is_nan, quiet, nearest), hn::Set(tag, 0xffff0000u));
}

void RoundToFloats(const float* values, std::int64_t n, float* out) {
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(hn::BitCast(kFloatTag, Rounded(load(values))), out); });
}

void RoundToHalves(const float* values, std::int64_t n, Bfloat16* out) {
  const hn::Rebind<std::uint16_t, FloatTag> half_tag;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Bits bits = hn::ShiftRight<16>(Rounded(hn::LoadU(kFloatTag, values + i)));
    const auto halves = hn::DemoteTo(half_tag, hn::BitCast(hn::RebindToSigned<FloatTag>(), bits));
    hn::StoreU(halves, half_tag, reinterpret_cast<std::uint16_t*>(out + i));
  }
  for (; i < n; ++i) out[i] = ToBfloat16(values[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu {

HWY_EXPORT(RoundToFloats);
HWY_EXPORT(RoundToHalves);

void RoundToBfloat16(std::span<const float> values, float* out) {
  HWY_DYNAMIC_DISPATCH(RoundToFloats)(values.data(), std::ssize(values), out);
}

void RoundToBfloat16(std::span<const float> values, Bfloat16* out) {
  HWY_DYNAMIC_DISPATCH(RoundToHalves)(values.data(), std::ssize(values), out);
}

}  // namespace trireme::kernels::cpu
#endif  // HWY_ONCE
