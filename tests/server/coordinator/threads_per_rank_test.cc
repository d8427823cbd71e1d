#include <gtest/gtest.h>

#include "base/cpu.h"
#include "server/coordinator/worker_group.h"

namespace trireme::server {
namespace {

TEST(DefaultThreadsPerRank, SharesTheUsableCpusWithOneAtLeast) {
  EXPECT_EQ(DefaultThreadsPerRank(1), UsableCpus());
  EXPECT_EQ(DefaultThreadsPerRank(100000), 1);
}

}  // namespace
}  // namespace trireme::server
