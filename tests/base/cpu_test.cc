#include "base/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace trireme {
namespace {

class CgroupTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();

  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
};

TEST_F(CgroupTest, NoFilesAreNoLimit) { EXPECT_EQ(CgroupCpuLimit(root_, "0::/\n"), std::nullopt); }

TEST_F(CgroupTest, ReadsVersion2) {
  Write("a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(CgroupCpuLimit(root_, "0::/a/b\n"), 1.5);
  EXPECT_EQ(CgroupCpuLimit(root_, "0::/a\n"), std::nullopt);
}

TEST_F(CgroupTest, TheTightestParentCounts) {
  Write("cpu.max", "400000 100000\n");
  Write("a/cpu.max", "200000 100000\n");
  Write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuLimit(root_, "0::/a/b\n"), 2.0);
  EXPECT_EQ(CgroupCpuLimit(root_, "0::/c\n"), 4.0);
}

TEST_F(CgroupTest, ReadsVersion1) {
  Write("cpu/x/cpu.cfs_quota_us", "50000\n");
  Write("cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuLimit(root_, "7:memory:/y\n5:cpu,cpuacct:/x\n0::/\n"), 0.5);
  Write("cpu/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CgroupCpuLimit(root_, "5:cpu,cpuacct:/x\n"), std::nullopt);
}

TEST_F(CgroupTest, GarbageIsNoLimit) {
  Write("cpu.max", "lots of it\n");
  EXPECT_EQ(CgroupCpuLimit(root_, "0::/\n"), std::nullopt);
  EXPECT_EQ(CgroupCpuLimit(root_, ""), std::nullopt);
  EXPECT_EQ(CgroupCpuLimit(root_, "no colons\n:one\n"), std::nullopt);
}

TEST(UsableCpusTest, IsBetweenOneAndTheMachine) {
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_LE(UsableCpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(UsableCpusTest, FollowsTheAffinityMask) {
  int usable = 0;
  std::thread([&] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    int first = 0;
    while (!CPU_ISSET(first, &set)) ++first;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    usable = UsableCpus();
  }).join();
  EXPECT_EQ(usable, 1);
}

// What Linux says of the CPU is an independent witness.
TEST(CpuFeaturesTest, AgreesWithLinux) {
  std::ifstream info("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("flags", 0) == 0) flags = line + ' ';
  }
  ASSERT_FALSE(flags.empty());
  const auto has = [&](const std::string& flag) { return flags.find(' ' + flag + ' ') != std::string::npos; };
  const CpuFeatures& f = GetCpuFeatures();
  EXPECT_EQ(f.avx2_fma, has("avx2") && has("fma"));
  EXPECT_EQ(f.avx512, has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl"));
  EXPECT_EQ(f.avx512_bf16, has("avx512_bf16"));
  EXPECT_LE(f.amx_bf16, has("amx_bf16"));  // it may still not be granted
  EXPECT_EQ(PrefersBfloat16(), f.avx512_bf16 || f.amx_bf16);
}

}  // namespace
}  // namespace trireme
