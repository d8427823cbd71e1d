// What this machine's CPU can do, as far as it decides defaults. What kernels use is kernels/cpu's own affair.
#pragma once

namespace trireme {

// Whether products of bfloat16 numbers are faster here than those of float32: AMX (whose CPUs all have AVX512_BF16) or
// AVX512_BF16, switched on by the operating system.
bool CpuHasBFloat16Products();

}  // namespace trireme
