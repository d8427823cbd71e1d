// kernels/gated_activation.h. The middle of a SwiGLU MLP, element by element:
//     out = silu(gate) · up,   silu(v) = v / (1 + exp(−v))
//
//   gate, up, out   [rows, dim] float32, row-major, contiguous; `out` may be `gate` or `up`
//
// Within 4 units in the last place of the exact value; silu(−∞) is 0 (its limit). Row-invariant; nothing is
// allocated. REQUIRES: rows >= 0, dim >= 0.
#pragma once
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor.h"

namespace trireme::kernels::cpu {

void GatedSilu(const float* gate, const float* up, RowsByDim shape, float* out, ThreadPool& pool);

}  // namespace trireme::kernels::cpu
