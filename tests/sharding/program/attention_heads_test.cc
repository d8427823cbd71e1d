#include "sharding/program/attention_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::sharding {
namespace {

using ::testing::HasSubstr;

constexpr int kHeadDim = 4;

// Each rank holds these heads.
Layout HoldingHeads(const std::vector<std::vector<int>>& heads_by_rank) {
  std::vector<Intervals> parts;
  for (const std::vector<int>& heads : heads_by_rank) {
    Intervals& intervals = parts.emplace_back();
    for (const int head : heads) {
      intervals.push_back({std::int64_t{head} * kHeadDim, std::int64_t{head + 1} * kHeadDim});
    }
  }
  return Layout::Sharded(std::make_shared<const std::vector<Intervals>>(parts));
}

bool Meet(int num_heads, int num_kv_heads, const Layout& queries, const Layout& keys, int world) {
  const AttentionOp attention{.num_heads = num_heads, .num_kv_heads = num_kv_heads, .head_dim = kHeadDim};
  return CheckHeads(attention, queries, keys, world).ok();
}

TEST(CheckHeads, AcceptsWholeHeadsThatMeet) {
  EXPECT_TRUE(Meet(4, 2, Layout::Replicated(), Layout::Replicated(), 2));
  EXPECT_TRUE(Meet(4, 2, HoldingHeads({{0, 1}, {2, 3}}), HoldingHeads({{0}, {1}}), 2));
  EXPECT_TRUE(Meet(4, 2, HoldingHeads({{0}, {1}, {2}, {3}}), HoldingHeads({{0}, {0}, {1}, {1}}), 4));
  EXPECT_TRUE(Meet(4, 4, HoldingHeads({{0, 1}, {2, 3}}), HoldingHeads({{0, 1}, {2, 3}}), 2));
}

TEST(CheckHeads, RefusesKvHeadsDealtInTurn) {
  EXPECT_FALSE(Meet(4, 2, HoldingHeads({{0}, {1}, {2}, {3}}), HoldingHeads({{0}, {1}, {0}, {1}}), 4));
}

TEST(CheckHeads, RefusesQueriesWithoutTheirKeys) {
  EXPECT_FALSE(Meet(4, 2, HoldingHeads({{0, 1, 2}, {3}}), HoldingHeads({{0}, {1}}), 2));
  EXPECT_FALSE(Meet(4, 2, HoldingHeads({{0, 1, 2}, {3}}), HoldingHeads({{0, 1}, {1}}), 2));
  EXPECT_FALSE(Meet(4, 2, HoldingHeads({{0, 1, 2, 3}, {}}), HoldingHeads({{0, 1}, {}}), 2));
}

TEST(CheckHeads, NamesTheRank) {
  const AttentionOp attention{.num_heads = 4, .num_kv_heads = 2, .head_dim = kHeadDim};
  const absl::Status status = CheckHeads(attention, HoldingHeads({{0, 1}, {2, 3}}), HoldingHeads({{0}, {0}}), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("do not meet on rank 1"));
}

TEST(HoldsWholeHeads, LooksAtBothEndsOfEachInterval) {
  const auto whole = [](const Intervals& intervals) {
    return HoldsWholeHeads(
        Layout::Sharded(std::make_shared<const std::vector<Intervals>>(std::vector<Intervals>{intervals})), kHeadDim);
  };
  EXPECT_TRUE(HoldsWholeHeads(Layout::Replicated(), kHeadDim));
  EXPECT_TRUE(whole({{0, 4}, {8, 16}}));
  EXPECT_TRUE(whole({}));
  EXPECT_FALSE(whole({{0, 4}, {8, 15}}));
  EXPECT_FALSE(whole({{2, 4}}));
}

}  // namespace
}  // namespace trireme::sharding
