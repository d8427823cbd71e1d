#include "base/cpu.h"

namespace trireme {

bool CpuHasBFloat16Products() { return __builtin_cpu_supports("avx512bf16") != 0; }

}  // namespace trireme
