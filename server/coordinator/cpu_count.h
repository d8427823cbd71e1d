// How many CPUs this process may use: hardware_concurrency() ignores a container's quota.
#pragma once
#include <filesystem>
#include <optional>

namespace trireme::server {

// CPUs of the affinity mask, bounded by the cgroup's quota; at least 1.
int UsableCpus();

// The least cpu.max (cgroup v2) of the group that `membership` (/proc/self/cgroup) names and of its ancestors below
// `mount` (/sys/fs/cgroup), in CPUs; nullopt where no quota is set.
std::optional<double> CgroupCpuQuota(const std::filesystem::path& membership, const std::filesystem::path& mount);

}  // namespace trireme::server
