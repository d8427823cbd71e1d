#include "client/bench/gap_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

namespace trireme::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RequestRecord Stream(std::initializer_list<int> at_ms) {
  RequestRecord record;
  for (const int at : at_ms) record.arrivals.push_back({.at = absl::Milliseconds(at)});
  return record;
}

TimeWindow Window(int begin_ms, int end_ms) {
  return {.begin = absl::Milliseconds(begin_ms), .end = absl::Milliseconds(end_ms)};
}

TEST(SplitInterTokenGaps, PutsGapsThatOverlapAWindowAside) {
  // The window lies in a gap, ends in one, begins in one; then there is one more.
  const SplitGaps split = SplitInterTokenGaps({Stream({0, 10, 30, 60, 100, 150, 210, 280})},
                                              {Window(12, 14), Window(70, 120), Window(220, 500)}, Window(0, 1000));
  EXPECT_THAT(split.beside, ElementsAre(20, 40, 50, 70));
  EXPECT_THAT(split.alone, ElementsAre(10, 30, 60));
}

TEST(SplitInterTokenGaps, CountsAGapThatOnlyTouchesAWindowAsAlone) {
  const SplitGaps split = SplitInterTokenGaps({Stream({0, 10, 20, 30})}, {Window(10, 20)}, Window(0, 1000));
  EXPECT_THAT(split.beside, ElementsAre(10));
  EXPECT_THAT(split.alone, ElementsAre(10, 10));
}

TEST(SplitInterTokenGaps, LeavesOutWhatIsNotMeasuredAsAWhole) {
  const SplitGaps split = SplitInterTokenGaps({Stream({0, 10, 21, 33}), Stream({}), Stream({15})}, {}, Window(5, 30));
  EXPECT_THAT(split.beside, IsEmpty());
  EXPECT_THAT(split.alone, ElementsAre(11));
}

}  // namespace
}  // namespace trireme::client
