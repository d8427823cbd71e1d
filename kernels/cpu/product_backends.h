// The two engines behind kernels/product.h.
#pragma once
#include <memory>

#include "kernels/product.h"

namespace trireme::kernels::cpu::internal {

std::unique_ptr<ProductBackend> MakeOwnProduct(const Matrix& weight, ThreadPool& pool);

// REQUIRES: no extent is 0; oneDNN knows the type on this CPU (bfloat16 needs AVX-512).
std::unique_ptr<ProductBackend> MakeOneDnnProduct(const Matrix& weight, ThreadPool& pool);

}  // namespace trireme::kernels::cpu::internal
