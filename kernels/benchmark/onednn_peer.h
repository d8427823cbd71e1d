// oneDNN's float32 product on prepacked weights, single-threaded: what ours is measured against.
#pragma once
#include <cstdint>
#include <memory>

namespace trireme::kernels::cpu {

class OneDnnFloatProduct {
 public:
  // `weight` is [n, k]; nothing of it is kept. For products of `rows` rows only.
  OneDnnFloatProduct(const float* weight, std::int64_t rows, std::int64_t n, std::int64_t k);
  ~OneDnnFloatProduct();

  // x is [rows, k], out is [rows, n].
  void Multiply(const float* x, float* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::kernels::cpu
