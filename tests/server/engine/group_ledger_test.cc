#include "server/engine/group_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GroupLedger, GivesEveryPlaceASlotOfItsOwn) {
  GroupLedger ledger({.generation = 3, .num_kv_blocks = {4}}, {.max_num_seqs = 2, .kv_block_tokens = 2});
  EXPECT_EQ(ledger.generation(), 3u);
  const Place a = ledger.Admit("", {}), b = ledger.Admit("", {});
  EXPECT_NE(a.slot, b.slot);
  EXPECT_NE(a.epoch, b.epoch);
  EXPECT_LT(a.slot, 2u);
  EXPECT_LT(b.slot, 2u);
  EXPECT_DEATH(ledger.Admit("", {}), "free_slots_");
}

TEST(GroupLedger, RaisesTheEpochWithEachTenant) {
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {4}}, {.max_num_seqs = 1, .kv_block_tokens = 2});
  Place place = ledger.Admit("", {});
  EXPECT_GT(place.epoch, 0u);
  for (int i = 0; i < 3; ++i) {
    ledger.Release(place);
    const Place next = ledger.Admit("", {});
    EXPECT_EQ(next.slot, place.slot);
    EXPECT_GT(next.epoch, place.epoch);
    place = next;
  }
}

TEST(GroupLedger, CountsBlocksOfTheFullestKvGroup) {
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {9, 4, 6}}, {.max_num_seqs = 2, .kv_block_tokens = 2});
  EXPECT_EQ(ledger.free_blocks(), 4u);
  EXPECT_EQ(ledger.total_blocks(), 4u);
  Place place = ledger.Admit("", {});
  EXPECT_EQ(place.num_blocks(), 0u);
  EXPECT_THAT(ledger.Extend(place, 0), IsEmpty());
  EXPECT_EQ(ledger.Extend(place, 3).size(), 3u);
  EXPECT_EQ(place.num_blocks(), 3u);
  EXPECT_EQ(ledger.free_blocks(), 1u);
  EXPECT_EQ(ledger.used_blocks(), 3u);
  ledger.Release(place);
  EXPECT_EQ(ledger.free_blocks(), 4u);
  EXPECT_EQ(ledger.used_blocks(), 0u);
}

TEST(GroupLedger, TellsOfReleasesOnce) {
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {4}}, {.max_num_seqs = 3, .kv_block_tokens = 2});
  const Place a = ledger.Admit("", {}), b = ledger.Admit("", {});
  EXPECT_THAT(ledger.TakeReleases(), IsEmpty());
  ledger.Release(b);
  ledger.Release(a);
  EXPECT_THAT(ledger.TakeReleases(), ElementsAre(b.slot, a.slot));
  EXPECT_THAT(ledger.TakeReleases(), IsEmpty());
}

TEST(GroupLedger, BringsCachedBlocksBeforeNewOnes) {
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {9, 7}}, {.max_num_seqs = 2, .kv_block_tokens = 2});
  const std::vector<std::uint32_t> tokens = {1, 2, 3, 4, 5};
  Place first = ledger.Admit("", tokens);
  EXPECT_EQ(first.num_blocks(), 0u);
  ledger.Extend(first, 3);
  ledger.Register(first, "", tokens);
  Place second = ledger.Admit("", tokens);
  EXPECT_THAT(second.blocks, ElementsAre(first.blocks[0], first.blocks[1]));
  EXPECT_EQ(ledger.used_blocks(), 3u);
  const auto told = ledger.Extend(second, 1);
  ASSERT_EQ(told.size(), 2u);  // KV groups
  EXPECT_THAT(told[0], ElementsAre(first.blocks[0], first.blocks[1], second.blocks[2]));
  EXPECT_EQ(told[1], told[0]);
  const auto more = ledger.Extend(second, 1);
  EXPECT_THAT(more[0], ElementsAre(second.blocks[3]));
  ledger.Release(first);
  EXPECT_EQ(ledger.used_blocks(), 4u);  // two of the first's are the second's, too
  ledger.Release(second);
  EXPECT_EQ(ledger.used_blocks(), 0u);
}

TEST(GroupLedger, RegistersBlocksOnceTheyAreFull) {
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {9}}, {.max_num_seqs = 1, .kv_block_tokens = 2});
  const std::vector<std::uint32_t> tokens = {1, 2, 3, 4, 5};
  Place place = ledger.Admit("", {});
  ledger.Extend(place, 3);
  const auto num_found = [&] { return ledger.Find("", tokens).blocks.size(); };
  for (const std::size_t known : {0u, 1u, 2u, 3u, 5u}) {
    ledger.Register(place, "", std::span(tokens).first(known));
    EXPECT_EQ(num_found(), known / 2);
  }
}

TEST(GroupLedger, FindsNothingWithoutCaching) {
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {9}},
                     {.max_num_seqs = 1, .kv_block_tokens = 2, .prefix_caching = false});
  const std::vector<std::uint32_t> tokens = {1, 2};
  Place place = ledger.Admit("", {});
  ledger.Extend(place, 1);
  ledger.Register(place, "", tokens);
  EXPECT_THAT(ledger.Find("", tokens).blocks, IsEmpty());
}

}  // namespace
}  // namespace trireme::server
