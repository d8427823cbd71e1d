#include "kernels/product.h"

#include "base/check.h"
#include "base/cpu.h"
#include "kernels/cpu/grain.h"
#include "kernels/cpu/product_backends.h"
#include "kernels/cpu/round_to_bfloat16.h"

namespace trireme::kernels::cpu {
namespace {

std::unique_ptr<internal::ProductBackend> MakeBackend(const Matrix& weight, ProductEngine engine, ThreadPool& pool) {
  CHECK_GE(weight.rows, 0);
  CHECK_GE(weight.columns, 0);
  const bool is_empty = weight.rows == 0 || weight.columns == 0;  // which oneDNN need not see
  if (engine == ProductEngine::kOwn || is_empty) return internal::MakeOwnProduct(weight, pool);
  return internal::MakeOneDnnProduct(weight, pool);
}

}  // namespace

ProductEngine PreferredProductEngine(ElementType type) {
  return type == ElementType::kBfloat16 && PrefersBfloat16() ? ProductEngine::kOneDnn : ProductEngine::kOwn;
}

PackedWeight::PackedWeight(const Matrix& weight, ThreadPool& pool)
    : PackedWeight(weight, PreferredProductEngine(weight.type), pool) {}

PackedWeight::PackedWeight(const Matrix& weight, ProductEngine engine, ThreadPool& pool)
    : n_(weight.rows), k_(weight.columns), type_(weight.type), backend_(MakeBackend(weight, engine, pool)) {}

Multiplier::Multiplier(const Limits& limits, ThreadPool& pool)
    : limits_(limits),
      pool_(pool),
      rounded_(static_cast<std::size_t>(limits.max_rows * limits.max_k) * sizeof(float)) {}

void Multiplier::Multiply(const PackedWeight& weight, const ProductArguments& arguments) {
  CHECK_GE(arguments.rows, 0);
  if (arguments.rows == 0 || weight.n() == 0) return;
  const void* x = weight.type() == ElementType::kFloat32 ? arguments.x : Round(weight, arguments);
  weight.backend_->Multiply(x, arguments.rows, arguments.bias, arguments.out, pool_);
}

const void* Multiplier::Round(const PackedWeight& weight, const ProductArguments& arguments) {
  CHECK_LE(arguments.rows, limits_.max_rows);
  CHECK_LE(weight.k(), limits_.max_k);
  const ElementType type = weight.backend_->x_type();
  pool_.ParallelFor(arguments.rows * weight.k(), MinRows(1), [&](std::int64_t begin, std::int64_t end) {
    const std::span<const float> from(arguments.x + begin, static_cast<std::size_t>(end - begin));
    if (type == ElementType::kBfloat16) {
      RoundToBfloat16(from, rounded_.As<Bfloat16>() + begin);
    } else {
      RoundToBfloat16(from, rounded_.As<float>() + begin);
    }
  });
  return rounded_.As<void>();
}

}  // namespace trireme::kernels::cpu
