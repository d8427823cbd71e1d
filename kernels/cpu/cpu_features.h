// What the CPU under this process can do, asked at run time and never of the compiler.
#pragma once

namespace trireme::kernels::cpu {

// True only where the operating system lets this process use it too.
struct CpuFeatures {
  bool avx2_fma = false;
  bool avx512 = false;  // F, BW, DQ, VL
  bool avx512_bf16 = false;
  bool amx_bf16 = false;
};

// Asked once, at the first call. Asking makes the kernel grant AMX to this process. Any thread.
const CpuFeatures& GetCpuFeatures();

// Whether products of bfloat16 are quicker than those of float32 here, not only half the bytes.
bool PrefersBfloat16();

}  // namespace trireme::kernels::cpu
