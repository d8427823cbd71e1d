// Rounds rows of float32 to the values of bfloat16, as ToBfloat16 of kernels/tensor.h does.
#pragma once
#include <span>

#include "kernels/tensor.h"

namespace trireme::kernels::cpu {

void RoundToBfloat16(std::span<const float> values, Bfloat16* out);
void RoundToBfloat16(std::span<const float> values, float* out);  // widened again

}  // namespace trireme::kernels::cpu
