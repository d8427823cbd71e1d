#include "server/engine/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Parts = std::vector<StepPart>;

TEST(Suspects, AreAllThatTookPartInALoss) {
  Suspects suspects;
  EXPECT_FALSE(
      suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}, {.key = 2, .num_computed = 9}}, {1, "a"}).has_value());
  EXPECT_TRUE(suspects.Contains(1));
  EXPECT_TRUE(suspects.Contains(2));
  EXPECT_FALSE(suspects.Contains(3));
}

TEST(Suspects, AreClearedByComputingWhatWasInFlightAndNoLess) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 9}}, {1, "a"});
  suspects.OnDone({.key = 1, .num_computed = 8});  // a first chunk
  EXPECT_TRUE(suspects.Contains(1));
  suspects.OnDone({.key = 2, .num_computed = 100});
  EXPECT_TRUE(suspects.Contains(1));
  suspects.OnDone({.key = 1, .num_computed = 9});
  EXPECT_FALSE(suspects.Contains(1));
}

TEST(Suspects, AreClearedByTheLastOfSeveralSteps) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 4}, {.key = 1, .num_computed = 5}, {.key = 1, .num_computed = 6}},
                  {1, "a"});
  suspects.OnDone({.key = 1, .num_computed = 5});
  EXPECT_TRUE(suspects.Contains(1));
  suspects.OnDone({.key = 1, .num_computed = 7});
  EXPECT_FALSE(suspects.Contains(1));
}

TEST(Suspects, AreConvictedByASecondLossWithTheCausesOfBoth) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}, {.key = 2, .num_computed = 5}}, {3, "rank 0 died"});
  const auto conviction = suspects.OnLoss(
      Parts{{.key = 3, .num_computed = 7}, {.key = 2, .num_computed = 5}, {.key = 2, .num_computed = 6}},
      {4, "rank 1 died"});
  ASSERT_TRUE(conviction.has_value());
  EXPECT_EQ(conviction->key, 2u);
  EXPECT_THAT(conviction->reason, HasSubstr("lost 2 times"));
  EXPECT_THAT(conviction->reason, HasSubstr("The causes: rank 0 died; rank 1 died"));
  EXPECT_THAT(conviction->generations, ElementsAre(3, 4));
  EXPECT_FALSE(suspects.Contains(2));  // it is over with
  EXPECT_FALSE(suspects.Contains(3));  // was only beside the culprit
  EXPECT_TRUE(suspects.Contains(1));   // has not been tried yet
}

TEST(Suspects, StayWhatTheyAreWhenAGroupIsLostWithoutThem) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}}, {1, "a"});
  EXPECT_FALSE(suspects.OnLoss({}, {2, "b"}).has_value());
  EXPECT_TRUE(suspects.Contains(1));
}

TEST(Suspects, BeginAnewOnceTheyWereCleared) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}}, {1, "a"});
  suspects.OnDone({.key = 1, .num_computed = 5});
  EXPECT_FALSE(suspects.OnLoss(Parts{{.key = 1, .num_computed = 6}}, {2, "b"}).has_value());
  const auto conviction = suspects.OnLoss(Parts{{.key = 1, .num_computed = 6}}, {3, "c"});
  ASSERT_TRUE(conviction.has_value());
  EXPECT_THAT(conviction->reason, HasSubstr("The causes: b; c"));
}

TEST(Suspects, AreNotConvictedTwoAtATime) {  // one of them may have been preempted before its step was done
  Suspects suspects;
  const Parts both = {{.key = 1, .num_computed = 5}, {.key = 2, .num_computed = 5}};
  suspects.OnLoss(both, {1, "a"});
  EXPECT_FALSE(suspects.OnLoss(both, {2, "b"}).has_value());
  const auto conviction = suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}}, {3, "c"});
  ASSERT_TRUE(conviction.has_value());
  EXPECT_THAT(conviction->reason, HasSubstr("lost 3 times"));
  EXPECT_THAT(conviction->reason, HasSubstr("The causes: a; b; c"));
}

TEST(Suspects, AreForgottenWhenTheyEnd) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}}, {1, "a"});
  suspects.Forget(1);
  suspects.Forget(2);
  EXPECT_FALSE(suspects.Contains(1));
}

}  // namespace
}  // namespace trireme::server
