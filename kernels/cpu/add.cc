#include "kernels/add.h"

#include "kernels/cpu/grain.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/add.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

void AddElements(const float* a, const float* b, std::int64_t n, float* out) {
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(hn::Add(load(a), load(b)), out); });
}

void ScaleElements(const float* x, float factor, std::int64_t n, float* out) {
  const FloatVector factors = hn::Set(kFloatTag, factor);
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(hn::Mul(load(x), factors), out); });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu {

HWY_EXPORT(AddElements);
HWY_EXPORT(ScaleElements);

void Add(const float* a, const float* b, RowsByDim shape, float* out, ThreadPool& pool) {
  pool.ParallelFor(shape.rows * shape.dim, MinRows(1), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(AddElements)(a + begin, b + begin, end - begin, out + begin);
  });
}

void AddBias(const float* x, const float* bias, RowsByDim shape, float* out, ThreadPool& pool) {
  pool.ParallelFor(shape.rows, MinRows(shape.dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(AddElements)(x + r * shape.dim, bias, shape.dim, out + r * shape.dim);
    }
  });
}

void Scale(const float* x, float factor, RowsByDim shape, float* out, ThreadPool& pool) {
  pool.ParallelFor(shape.rows * shape.dim, MinRows(1), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(ScaleElements)(x + begin, factor, end - begin, out + begin);
  });
}

}  // namespace trireme::kernels::cpu
#endif  // HWY_ONCE
