// kernels/product.h. The product of rows with a weight, in Hugging Face's orientation:
//     out[r, j] = Σ_i x[r, i] · weight[j, i]  (+ bias[j])
//
//   x        [rows, k] float32, row-major, contiguous
//   weight   [n, k] float32 or bfloat16, packed once by PackedWeight
//   bias     [n] float32, or null
//   out      [rows, n] float32, row-major, contiguous; overlaps nothing
//
// With a bfloat16 weight the rows of x are rounded to bfloat16 first (nearest, ties to even); products are
// summed in float32. rows, n and k may be zero (an empty rank): a sum of nothing is 0, so out is the bias, or
// 0.
//
// Row-invariant: a row's bits depend on no other row and not on rows, the pool or where n was cut
//   - with a float32 weight, everywhere: each sum is one chain of fused multiply-adds in the order of i, from
//   0, and
//     the bias is added last (so the bits are the same on every CPU with FMA);
//   - with a bfloat16 weight, where ProductEngine is kOwn (the same chain). kOneDnn promises only that the
//   same
//     product repeated gives the same bits.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor.h"

namespace trireme::kernels::cpu {

// Who multiplies. oneDNN has AMX and AVX512_BF16; its float32 is not row-invariant on every CPU, and ours
// keeps up.
enum class ProductEngine { kOwn, kOneDnn };

// kOneDnn for bfloat16 on a CPU with AMX or AVX512_BF16, else kOwn.
ProductEngine PreferredProductEngine(ElementType type);

struct PackedWeightOptions {
  ProductEngine engine = ProductEngine::kOwn;

  // The largest `rows` of a Multiply, used by kOneDnn only, which makes a primitive for 1, 2, 4 … rows now
  // rather than within a step. Larger products are done in pieces of this many rows.
  std::int64_t max_rows = 512;
};

// A weight in the order in which the product reads it. It keeps nothing of `weight`: the caller may free
// that. Any number of threads may multiply with one PackedWeight at once.
class PackedWeight {
 public:
  // Uses PreferredProductEngine(weight.type).
  PackedWeight(const Matrix& weight, ThreadPool& pool);
  PackedWeight(const Matrix& weight, const PackedWeightOptions& options, ThreadPool& pool);
  ~PackedWeight();
  PackedWeight(PackedWeight&&) noexcept;
  PackedWeight& operator=(PackedWeight&&) noexcept;

  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  ElementType type() const { return type_; }

  // What it holds, padding included.
  std::int64_t size_bytes() const;

  // How the product is carried out ("own, avx512", "brg:avx512_core_amx_bf16"), for a log line.
  const char* implementation() const;

 private:
  friend class Multiplier;
  class Storage;
  class OwnStorage;
  class OneDnnStorage;

  std::int64_t n_;
  std::int64_t k_;
  ElementType type_;
  std::unique_ptr<Storage> storage_;
};

struct ProductArguments {
  const float* x = nullptr;     // [rows, k]
  const float* bias = nullptr;  // [n], or null
  float* out = nullptr;         // [rows, n]
  std::int64_t rows = 0;
};

// Room for what a product writes on the way (rounded and padded rows), made once for the largest product of a
// rank. One Multiply at a time.
class Multiplier {
 public:
  struct Limits {
    std::int64_t max_rows = 0;
    std::int64_t max_k = 0;  // of bfloat16 weights; 0 if all are float32
    std::int64_t max_n = 0;  // likewise
  };
  Multiplier(const Limits& limits, ThreadPool& pool);  // the pool must outlive it
  ~Multiplier();
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

  // See the top of this file.
  // REQUIRES: rows <= max_rows; for a bfloat16 weight k <= max_k and n <= max_n.
  void Multiply(const PackedWeight& weight, const ProductArguments& arguments);

 private:
  struct Scratch;
  Limits limits_;
  ThreadPool& pool_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace trireme::kernels::cpu
