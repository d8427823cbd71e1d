#include "kernels/cpu/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace trireme::kernels::cpu {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "max 100000" and "-1 100000" are no limit, "150000 100000" is 1.5.
std::optional<double> ParseQuotaAndPeriod(const std::string& text) {
  std::istringstream in(text);
  double quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> LimitOfFolder(const std::filesystem::path& folder) {
  if (auto limit = ParseQuotaAndPeriod(ReadFile(folder / "cpu.max"))) return limit;
  return ParseQuotaAndPeriod(ReadFile(folder / "cpu.cfs_quota_us") + ' ' +
                             ReadFile(folder / "cpu.cfs_period_us"));
}

// The least limit of root/path and the folders above it, up to root.
std::optional<double> LimitUpTo(const std::filesystem::path& root, std::filesystem::path path) {
  std::optional<double> least = LimitOfFolder(root);
  for (path = path.relative_path(); !path.empty(); path = path.parent_path()) {
    const std::optional<double> limit = LimitOfFolder(root / path);
    if (limit) least = std::min(*limit, least.value_or(*limit));
  }
  return least;
}

// A line is "id:controllers:path"; version 2 has no controllers, version 1 mounts "cpu" at root/cpu.
std::optional<std::filesystem::path> PathOf(const std::string& line, const std::string& controller) {
  const auto first = line.find(':');
  const auto second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
  const bool is_it = controller.empty() ? controllers == ",,"
                                        : controllers.find(',' + controller + ',') != std::string::npos;
  if (!is_it) return std::nullopt;
  return std::filesystem::path(line.substr(second + 1));
}

int AffinityCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> CgroupCpuLimit(const std::filesystem::path& root, std::string_view membership) {
  std::optional<double> least;
  const auto consider = [&](std::optional<double> limit) {
    if (limit && (!least || *limit < *least)) least = limit;
  };
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {
    if (const auto path = PathOf(line, "")) consider(LimitUpTo(root, *path));
    if (const auto path = PathOf(line, "cpu")) consider(LimitUpTo(root / "cpu", *path));
  }
  return least;
}

int UsableCpus() {
  const double limit =
      CgroupCpuLimit("/sys/fs/cgroup", ReadFile("/proc/self/cgroup")).value_or(AffinityCpus());
  return std::max(1, std::min(AffinityCpus(), static_cast<int>(std::ceil(limit))));
}

}  // namespace trireme::kernels::cpu
