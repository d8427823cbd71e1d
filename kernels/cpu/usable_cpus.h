// How many CPUs this process may use at once, which is often fewer than the machine has.
#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

namespace trireme::kernels::cpu {

// The smaller of the calling thread's affinity mask and the limit of its cgroup, rounded up. At least 1.
int UsableCpus();

// The CPU time per time that a cgroup mounted at `root` (/sys/fs/cgroup) allows the process whose
// /proc/self/cgroup reads `membership`; nothing where there is no limit. Version 2 (cpu.max) and 1
// (cpu.cfs_quota_us); the cgroup's parents count too. Files that cannot be read or parsed are no limit.
std::optional<double> CgroupCpuLimit(const std::filesystem::path& root, std::string_view membership);

}  // namespace trireme::kernels::cpu
