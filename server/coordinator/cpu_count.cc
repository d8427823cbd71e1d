#include "server/coordinator/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace trireme::server {
namespace {

// "0::/a/b" gives "a/b"; v1's lines have other numbers.
std::filesystem::path UnifiedGroup(const std::filesystem::path& membership) {
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

// "max 100000", or microseconds allowed and their period: "150000 100000".
std::optional<double> ReadQuota(const std::filesystem::path& cpu_max) {
  std::ifstream file(cpu_max);
  double allowed = 0;
  double period = 0;
  if (!(file >> allowed >> period) || period <= 0) return std::nullopt;
  return allowed / period;
}

int AffinityCpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return CPU_COUNT(&cpus);
  return static_cast<int>(std::thread::hardware_concurrency());  // more than 1024 CPUs
}

}  // namespace

std::optional<double> CgroupCpuQuota(const std::filesystem::path& membership, const std::filesystem::path& mount) {
  std::optional<double> least = ReadQuota(mount / "cpu.max");
  std::filesystem::path group = mount;
  for (const std::filesystem::path& part : UnifiedGroup(membership)) {
    group /= part;
    const std::optional<double> quota = ReadQuota(group / "cpu.max");
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

int UsableCpus() {
  int cpus = AffinityCpus();
  if (const auto quota = CgroupCpuQuota("/proc/self/cgroup", "/sys/fs/cgroup")) {
    cpus = std::min(cpus, static_cast<int>(*quota));
  }
  return std::max(cpus, 1);
}

}  // namespace trireme::server
