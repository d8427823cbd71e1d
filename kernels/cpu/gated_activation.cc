#include "kernels/gated_activation.h"

#include "kernels/cpu/grain.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gated_activation.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

void GateElements(const float* gate, const float* up, std::int64_t n, float* out) {
  // exp(104) is infinite, so silu is −0 from here down; it keeps −∞ / ∞ from being NaN.
  const FloatVector lowest = hn::Set(kFloatTag, -104.0f);
  const FloatVector one = hn::Set(kFloatTag, 1.0f);
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR {
    const FloatVector g = load(gate);
    const FloatVector bounded = hn::IfThenElse(hn::Lt(g, lowest), lowest, g);
    const FloatVector silu = hn::Div(bounded, hn::Add(one, ExpOrNan(hn::Neg(bounded))));
    store(hn::Mul(silu, load(up)), out);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu {

HWY_EXPORT(GateElements);

void GatedSilu(const float* gate, const float* up, RowsByDim shape, float* out, ThreadPool& pool) {
  constexpr std::int64_t kElementCost = 8;  // exp and a division
  pool.ParallelFor(shape.rows * shape.dim, MinRows(kElementCost), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(GateElements)(gate + begin, up + begin, end - begin, out + begin);
  });
}

}  // namespace trireme::kernels::cpu
#endif  // HWY_ONCE
