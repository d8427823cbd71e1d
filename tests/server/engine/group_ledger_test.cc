#include "server/engine/group_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GroupLedger, GivesEveryPlaceASlotOfItsOwn) {
  GroupLedger ledger({.generation = 3, .num_kv_blocks = {4}}, 2);
  EXPECT_EQ(ledger.generation(), 3u);
  const Place a = ledger.Admit(), b = ledger.Admit();
  EXPECT_NE(a.slot, b.slot);
  EXPECT_NE(a.epoch, b.epoch);
  EXPECT_LT(a.slot, 2u);
  EXPECT_LT(b.slot, 2u);
  EXPECT_DEATH(ledger.Admit(), "free_slots_");
}

TEST(GroupLedger, RaisesTheEpochWithEachTenant) {
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {4}}, 1);
  Place place = ledger.Admit();
  EXPECT_GT(place.epoch, 0u);
  for (int i = 0; i < 3; ++i) {
    ledger.Release(place);
    const Place next = ledger.Admit();
    EXPECT_EQ(next.slot, place.slot);
    EXPECT_GT(next.epoch, place.epoch);
    place = next;
  }
}

TEST(GroupLedger, CountsBlocksOfTheFullestKvGroup) {
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {9, 4, 6}}, 2);
  EXPECT_EQ(ledger.free_blocks(), 4u);
  EXPECT_EQ(ledger.total_blocks(), 4u);
  Place place = ledger.Admit();
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
  GroupLedger ledger({.generation = 1, .num_kv_blocks = {4}}, 3);
  const Place a = ledger.Admit(), b = ledger.Admit();
  EXPECT_THAT(ledger.TakeReleases(), IsEmpty());
  ledger.Release(b);
  ledger.Release(a);
  EXPECT_THAT(ledger.TakeReleases(), ElementsAre(b.slot, a.slot));
  EXPECT_THAT(ledger.TakeReleases(), IsEmpty());
}

}  // namespace
}  // namespace trireme::server
