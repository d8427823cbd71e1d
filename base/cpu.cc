#include "base/cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace trireme {
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
  return ParseQuotaAndPeriod(ReadFile(folder / "cpu.cfs_quota_us") + ' ' + ReadFile(folder / "cpu.cfs_period_us"));
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
  const bool is_it =
      controller.empty() ? controllers == ",," : controllers.find(',' + controller + ',') != std::string::npos;
  if (!is_it) return std::nullopt;
  return std::filesystem::path(line.substr(second + 1));
}

int AffinityCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

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
  f.amx_bf16 = f.avx512 && saves(kTiles) && Bit(leaf7.edx, kAmxBf16) && Bit(leaf7.edx, kAmxTile) && TilesGranted();
  return f;
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
  const int cpus = AffinityCpus();
  const double limit = CgroupCpuLimit("/sys/fs/cgroup", ReadFile("/proc/self/cgroup")).value_or(cpus);
  return std::max(1, static_cast<int>(std::min<double>(cpus, limit)));
}

const CpuFeatures& GetCpuFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

bool PrefersBfloat16() { return GetCpuFeatures().avx512_bf16 || GetCpuFeatures().amx_bf16; }

}  // namespace trireme
