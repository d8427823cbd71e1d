// What this process may expect of the machine's CPUs: how many, and what they can do. Asked at run time, never of the
// compiler. Any thread.
#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

namespace trireme {

// How many CPUs this process may use at once, which is often fewer than the machine has: the smaller of the calling
// thread's affinity mask and the limit of its cgroup, rounded down (a thread beyond the limit would stop all others
// once the period's time is used up). At least 1.
int UsableCpus();

// The CPU time per time that a cgroup mounted at `root` (/sys/fs/cgroup) allows the process whose
// /proc/self/cgroup reads `membership`; nothing where there is no limit. Version 2 (cpu.max) and 1
// (cpu.cfs_quota_us); the cgroup's parents count too. Files that cannot be read or parsed are no limit.
std::optional<double> CgroupCpuLimit(const std::filesystem::path& root, std::string_view membership);

// True only where the operating system lets this process use it too.
struct CpuFeatures {
  bool avx2_fma = false;
  bool avx512 = false;  // F, BW, DQ, VL
  bool avx512_bf16 = false;
  bool amx_bf16 = false;
};

// Asked once, at the first call. Asking makes the kernel grant AMX to this process.
const CpuFeatures& GetCpuFeatures();

// Whether products of bfloat16 are quicker than those of float32 here, not only half the bytes.
bool PrefersBfloat16();

}  // namespace trireme
