#include "sharding/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::sharding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kWorlds[] = {1, 2, 3, 4, 8, 9};

Axis Uneven(std::int64_t extent, std::int64_t unit = 1) {
  return SingleBlock(extent, unit, Division::kUneven, "features");
}

// How many ranks hold each element.
std::vector<int> Holders(const Axis& axis, int world) {
  std::vector<int> holders(axis.extent());
  for (int index = 0; index < world; ++index) {
    const absl::StatusOr<Intervals> intervals = CutAxis(axis, {index, world});
    EXPECT_TRUE(intervals.ok()) << intervals.status();
    if (!intervals.ok()) continue;
    for (const Interval& interval : *intervals) {
      for (std::int64_t i = interval.begin; i < interval.end; ++i) ++holders[i];
    }
  }
  return holders;
}

TEST(CutAxis, UnevenSlicesTileTheAxis) {
  for (const int world : kWorlds) {
    for (const std::int64_t extent : {0, 1, 2, 3, 7, 16, 24, 97, 1536}) {
      EXPECT_EQ(Holders(Uneven(extent), world), std::vector<int>(extent, 1)) << extent << " over " << world;
    }
  }
}

TEST(CutAxis, GivesLaterRanksLessOrNothing) {
  const Axis axis = Uneven(16);
  EXPECT_THAT(*CutAxis(axis, {2, 3}), ElementsAre(Interval{12, 16}));
  EXPECT_THAT(*CutAxis(axis, {7, 14}), ElementsAre(Interval{14, 16}));
  EXPECT_THAT(*CutAxis(axis, {8, 14}), IsEmpty());
  EXPECT_THAT(*CutAxis(Uneven(10), {3, 4}), ElementsAre(Interval{9, 10}));
}

TEST(CutAxis, CutsUnevenlyInWholeUnitsOnly) {
  EXPECT_THAT(*CutAxis(Uneven(2880, 32), {0, 4}), ElementsAre(Interval{0, 23 * 32}));
  EXPECT_THAT(*CutAxis(Uneven(2880, 32), {3, 4}), ElementsAre(Interval{69 * 32, 90 * 32}));
}

TEST(CutAxis, CutsEvenlyOrNamesWhatDoesNotDivide) {
  const Axis heads = SingleBlock(9 * 64, 64, Division::kEven, "query heads");
  EXPECT_THAT(*CutAxis(heads, {1, 3}), ElementsAre(Interval{3 * 64, 6 * 64}));
  const absl::Status refused = CutAxis(heads, {0, 2}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), "9 query heads cannot be divided evenly among 2 ranks");
}

TEST(CutAxis, SharesAKvHeadAmongNeighbours) {
  const Axis heads = SingleBlock(3 * 64, 64, Division::kEvenOrReplicated, "KV heads");
  EXPECT_EQ(Holders(heads, 1), std::vector<int>(3 * 64, 1));
  EXPECT_EQ(Holders(heads, 3), std::vector<int>(3 * 64, 1));
  EXPECT_EQ(Holders(heads, 9), std::vector<int>(3 * 64, 3));
  EXPECT_THAT(*CutAxis(heads, {2, 9}), ElementsAre(Interval{0, 64}));
  EXPECT_THAT(*CutAxis(heads, {3, 9}), ElementsAre(Interval{64, 128}));
  for (const int world : {2, 4, 8}) {
    EXPECT_THAT(std::string(CutAxis(heads, {0, world}).status().message()), HasSubstr("3 KV heads")) << world;
  }
}

TEST(CutAxis, ReplicatesASingleKvHeadToAll) {
  const Axis head = SingleBlock(64, 64, Division::kEvenOrReplicated, "KV heads");
  for (const int world : kWorlds) EXPECT_EQ(Holders(head, world), std::vector<int>(64, world));
}

TEST(CutAxis, CutsEachBlockByItself) {
  const AxisBlock gate{.extent = 12, .unit = 1, .division = Division::kUneven, .what = "gate"};
  const Axis packed{{gate, gate}};
  EXPECT_THAT(*CutAxis(packed, {0, 4}), ElementsAre(Interval{0, 3}, Interval{12, 15}));
  EXPECT_THAT(*CutAxis(packed, {3, 4}), ElementsAre(Interval{9, 12}, Interval{21, 24}));
}

TEST(CutAxis, JoinsStretchesThatTouch) {
  const AxisBlock gate{.extent = 12, .unit = 1, .division = Division::kUneven, .what = "gate"};
  EXPECT_THAT(*CutAxis(Axis{{gate, gate}}, {0, 1}), ElementsAre(Interval{0, 24}));
}

TEST(CutAxis, TilesBlocksOfUnequalSize) {
  const Axis qkv{{{.extent = 8 * 4, .unit = 4, .division = Division::kEven, .what = "query heads"},
                  {.extent = 4 * 4, .unit = 4, .division = Division::kEven, .what = "key heads"},
                  {.extent = 4 * 4, .unit = 4, .division = Division::kEven, .what = "value heads"}}};
  for (const int world : {1, 2, 4}) EXPECT_EQ(Holders(qkv, world), std::vector<int>(64, 1)) << world;
  EXPECT_THAT(*CutAxis(qkv, {1, 4}), ElementsAre(Interval{8, 16}, Interval{36, 40}, Interval{52, 56}));
  EXPECT_THAT(std::string(CutAxis(qkv, {0, 8}).status().message()), HasSubstr("4 key heads"));
}

TEST(AxisForStridedShard, TakesASingleBlockAsTwoHalves) {
  const Axis halves = *AxisForStridedShard(Uneven(20));
  EXPECT_THAT(*CutAxis(halves, {0, 4}), ElementsAre(Interval{0, 3}, Interval{10, 13}));
  EXPECT_THAT(*CutAxis(halves, {3, 4}), ElementsAre(Interval{9, 10}, Interval{19, 20}));
  for (const int world : kWorlds) EXPECT_EQ(Holders(halves, world), std::vector<int>(20, 1));
}

TEST(AxisForStridedShard, RefusesAnOddAxis) {
  EXPECT_THAT(std::string(AxisForStridedShard(Uneven(21)).status().message()), HasSubstr("21"));
  EXPECT_THAT(std::string(AxisForStridedShard(Uneven(24, 8)).status().message()), HasSubstr("units of 8"));
}

TEST(AxisForShard, RefusesToMixBlocks) {
  const AxisBlock block{.extent = 4, .unit = 1, .division = Division::kUneven, .what = "gate"};
  EXPECT_TRUE(AxisForShard(Axis{{block}}).ok());
  EXPECT_THAT(std::string(AxisForShard(Axis{{block, block}}).status().message()), HasSubstr("2 blocks"));
}

TEST(Placement, SaysWhatItIs) {
  EXPECT_EQ(ToString(Replicate{}), "replicate");
  EXPECT_EQ(ToString(Shard{1}), "shard(1)");
  EXPECT_EQ(ToString(StridedShard{0}), "strided_shard(0)");
  EXPECT_EQ(ToString(Partial{}), "partial");
}

TEST(Span, ReachesFromTheFirstElementToTheLast) {
  EXPECT_EQ(Span({}), (Interval{0, 0}));
  EXPECT_EQ(Span({{3, 5}}), (Interval{3, 5}));
  EXPECT_EQ(Span({{3, 5}, {8, 9}}), (Interval{3, 9}));
}

}  // namespace
}  // namespace trireme::sharding
