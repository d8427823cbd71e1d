// kernels/product.h. The product of rows with a weight, in Hugging Face's orientation:
//     out[r, j] = Σ_i x[r, i] · weight[j, i]  (+ bias[j])
//
//   x        [rows, k] float32, row-major, contiguous
//   weight   [n, k] float32 or bfloat16, packed once by PackedWeight
//   bias     [n] float32, or null
//   out      [rows, n] float32, row-major, contiguous; overlaps nothing
//
// With a bfloat16 weight the rows of x are rounded to bfloat16 first (nearest, ties to even); products are summed in
// float32. rows, n and k may be zero (an empty rank): a sum of nothing is 0, so out is the bias, or 0.
//
// Row-invariant: a row's bits depend on no other row and not on rows, the pool or where n was cut
//   - with kOwn: each sum is one chain of fused multiply-adds in the order of i, from 0, and the bias is
//   added
//     last. So the bits are the same on every CPU with FMA, and can be said in advance;
//   - with kOneDnn nothing of that: the same product repeated gives the same bits, and that is all.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor.h"

namespace trireme::kernels::cpu {

// Who multiplies. oneDNN knows AMX and AVX512_BF16. Its float32 is not row-invariant on every CPU, and ours
// keeps up with it.
enum class ProductEngine { kOwn, kOneDnn };

// kOneDnn for bfloat16 on a CPU with AMX or AVX512_BF16, else kOwn.
ProductEngine PreferredProductEngine(ElementType type);

namespace internal {

// The packed weight and the loop over it, of one engine. Immutable once made.
class ProductBackend {
 public:
  virtual ~ProductBackend() = default;

  // x is rounded already: [rows, k], float32 for kOwn, bfloat16 for kOneDnn with a bfloat16 weight.
  virtual void Multiply(const void* x, std::int64_t rows, const float* bias, float* out, ThreadPool& pool) const = 0;
  virtual ElementType x_type() const = 0;
  virtual std::int64_t size_bytes() const = 0;
};

}  // namespace internal

// A weight in the order in which the product reads it. It keeps nothing of `weight`: the caller may free
// that. Immutable, so any number of Multipliers may use it at once.
class PackedWeight {
 public:
  // The pool is used for packing only.
  PackedWeight(const Matrix& weight, ThreadPool& pool);  // with PreferredProductEngine(weight.type)
  PackedWeight(const Matrix& weight, ProductEngine engine, ThreadPool& pool);

  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  ElementType type() const { return type_; }

  // What it holds, padding included.
  std::int64_t size_bytes() const { return backend_->size_bytes(); }

 private:
  friend class Multiplier;

  std::int64_t n_;
  std::int64_t k_;
  ElementType type_;
  std::unique_ptr<internal::ProductBackend> backend_;
};

struct ProductArguments {
  const float* x = nullptr;     // [rows, k]
  const float* bias = nullptr;  // [n], or null
  float* out = nullptr;         // [rows, n]
  std::int64_t rows = 0;
};

// Multiplies on a pool, with room of its own for rounded rows. One Multiply at a time.
class Multiplier {
 public:
  // The largest product with a bfloat16 weight that will be asked for. Zeros if all weights are float32.
  struct Limits {
    std::int64_t max_rows = 0;
    std::int64_t max_k = 0;
  };

  Multiplier(const Limits& limits, ThreadPool& pool);  // the pool must outlive it

  // The product at the top of this file. Allocates nothing, but for what oneDNN does within; the first
  // product of each number of rows may. REQUIRES: with a bfloat16 weight, rows <= max_rows and k <= max_k.
  void Multiply(const PackedWeight& weight, const ProductArguments& arguments);

 private:
  const void* Round(const PackedWeight& weight, const ProductArguments& arguments);

  Limits limits_;
  ThreadPool& pool_;
  AlignedBuffer rounded_;
};

}  // namespace trireme::kernels::cpu
