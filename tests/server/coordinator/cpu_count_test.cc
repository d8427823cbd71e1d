#include "server/coordinator/cpu_count.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "server/coordinator/worker_group.h"

namespace trireme::server {
namespace {

class CpuCountTest : public testing::Test {
 protected:
  CpuCountTest() { std::filesystem::create_directories(mount_ / "pod" / "box"); }
  ~CpuCountTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("cpu_count_test" + std::to_string(getpid()));
  const std::filesystem::path mount_ = root_ / "cgroup";
  const std::filesystem::path membership_ = root_ / "membership";
};

TEST_F(CpuCountTest, NoQuotaWhereNoneIsSet) {
  EXPECT_EQ(CgroupCpuQuota(membership_, mount_), std::nullopt) << "no files at all";
  Write(membership_, "0::/pod/box\n");
  Write(mount_ / "pod" / "box" / "cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuQuota(membership_, mount_), std::nullopt);
}

TEST_F(CpuCountTest, TheTightestQuotaOnTheWayUpCounts) {
  Write(membership_, "4:memory:/elsewhere\n0::/pod/box\n");
  Write(mount_ / "pod" / "box" / "cpu.max", "400000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(membership_, mount_), 4.0);
  Write(mount_ / "pod" / "cpu.max", "150000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(membership_, mount_), 1.5);
}

TEST_F(CpuCountTest, InAContainerTheRootIsItsOwnGroup) {
  Write(membership_, "0::/\n");
  Write(mount_ / "cpu.max", "50000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(membership_, mount_), 0.5);
}

TEST(UsableCpus, IsBoundedByTheAffinityMask) {
  int usable = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    usable = UsableCpus();
  }).join();
  EXPECT_EQ(usable, 1);
}

TEST(UsableCpus, AreSharedByTheRanksWithOneAtLeast) {
  EXPECT_EQ(DefaultThreadsPerRank(1), UsableCpus());
  EXPECT_EQ(DefaultThreadsPerRank(100000), 1);
}

}  // namespace
}  // namespace trireme::server
