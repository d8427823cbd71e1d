#include "kernels/cpu/cpu_features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace trireme::kernels::cpu {
namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero where the CPU does not know the leaf.
Registers Cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

constexpr bool Bit(unsigned value, int bit) { return ((value >> bit) & 1) != 0; }

// Which register states the operating system saves (XCR0).
std::uint64_t SavedStates() {
  constexpr int kOsxsave = 27;
  if (!Bit(Cpuid(1, 0).ecx, kOsxsave)) return 0;
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

constexpr std::uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;

// Linux lets a process use AMX only once it has asked.
bool TilesGranted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures Detect() {
  const std::uint64_t saved = SavedStates();
  const auto saves = [&](std::uint64_t states) { return (saved & states) == states; };
  const Registers basic = Cpuid(1, 0), leaf7 = Cpuid(7, 0), leaf7_1 = Cpuid(7, 1);
  constexpr int kFma = 12, kAvx2 = 5, kF = 16, kDq = 17, kBw = 30, kVl = 31, kBf16 = 5;
  constexpr int kAmxBf16 = 22, kAmxTile = 24;

  CpuFeatures f;
  f.avx2_fma = saves(kYmm) && Bit(leaf7.ebx, kAvx2) && Bit(basic.ecx, kFma);
  f.avx512 = f.avx2_fma && saves(kZmm) && Bit(leaf7.ebx, kF) && Bit(leaf7.ebx, kDq) && Bit(leaf7.ebx, kBw) &&
             Bit(leaf7.ebx, kVl);
  f.avx512_bf16 = f.avx512 && Bit(leaf7_1.eax, kBf16);
  f.amx_bf16 =
      f.avx512 && saves(kTiles) && Bit(leaf7.edx, kAmxBf16) && Bit(leaf7.edx, kAmxTile) && TilesGranted();
  return f;
}

}  // namespace

const CpuFeatures& GetCpuFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

bool PrefersBfloat16() { return GetCpuFeatures().avx512_bf16 || GetCpuFeatures().amx_bf16; }

}  // namespace trireme::kernels::cpu
