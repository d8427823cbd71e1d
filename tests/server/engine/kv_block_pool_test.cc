#include "server/engine/kv_block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KvBlockPool, GivesEachBlockOnce) {
  KvBlockPool pool(100);
  std::set<std::uint32_t> seen;
  for (std::uint32_t count : {0u, 1u, 33u, 66u}) {
    for (std::uint32_t block : pool.Allocate(count)) EXPECT_TRUE(seen.insert(block).second) << block;
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(*seen.rbegin(), 99u);
  EXPECT_EQ(pool.num_free(), 0u);
  EXPECT_THAT(pool.Allocate(0), IsEmpty());
}

TEST(KvBlockPool, GivesReleasedBlocksAgain) {
  KvBlockPool pool(3);
  EXPECT_THAT(pool.Allocate(3), ElementsAre(0u, 1u, 2u));
  pool.Release({1});
  EXPECT_EQ(pool.num_free(), 1u);
  EXPECT_THAT(pool.Allocate(1), ElementsAre(1u));
}

TEST(KvBlockPool, MayBeEmpty) {
  KvBlockPool pool(0);
  EXPECT_EQ(pool.num_free(), 0u);
  pool.Release(pool.Allocate(0));
}

TEST(KvBlockPoolDeathTest, CatchesOurMistakes) {
  KvBlockPool pool(2);
  const std::vector<std::uint32_t> blocks = pool.Allocate(1);
  EXPECT_DEATH(pool.Allocate(2), "2 against 1");
  EXPECT_DEATH(pool.Release({5}), "5 against 2");
  pool.Release(blocks);
  EXPECT_DEATH(pool.Release(blocks), "released twice");
}

}  // namespace
}  // namespace trireme::server
