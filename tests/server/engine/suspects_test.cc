#include "server/engine/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace trireme::server {
namespace {

using ::testing::HasSubstr;

using Parts = std::vector<StepPart>;

TEST(Suspects, AreAllThatTookPartInALoss) {
  Suspects suspects;
  EXPECT_TRUE(suspects.empty());
  EXPECT_FALSE(suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}, {.key = 2, .num_computed = 9}}, "a").has_value());
  EXPECT_TRUE(suspects.Contains(1));
  EXPECT_TRUE(suspects.Contains(2));
  EXPECT_FALSE(suspects.Contains(3));
}

TEST(Suspects, AreNoneIfNothingWasInFlight) {
  Suspects suspects;
  EXPECT_FALSE(suspects.OnLoss({}, "a").has_value());
  EXPECT_TRUE(suspects.empty());
}

TEST(Suspects, AreClearedByComputingWhatWasInFlightAndNoLess) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 9}}, "a");
  suspects.OnDone({.key = 1, .num_computed = 8});  // a first chunk
  EXPECT_TRUE(suspects.Contains(1));
  suspects.OnDone({.key = 2, .num_computed = 100});
  EXPECT_TRUE(suspects.Contains(1));
  suspects.OnDone({.key = 1, .num_computed = 9});
  EXPECT_TRUE(suspects.empty());
}

TEST(Suspects, AreClearedByTheLastOfSeveralSteps) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 4}, {.key = 1, .num_computed = 5}, {.key = 1, .num_computed = 6}},
                  "a");
  suspects.OnDone({.key = 1, .num_computed = 5});
  EXPECT_TRUE(suspects.Contains(1));
  suspects.OnDone({.key = 1, .num_computed = 7});
  EXPECT_TRUE(suspects.empty());
}

TEST(Suspects, AreConvictedByASecondLossWithTheCausesOfBoth) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}, {.key = 2, .num_computed = 5}}, "rank 0 died");
  const auto conviction = suspects.OnLoss(
      Parts{{.key = 3, .num_computed = 7}, {.key = 2, .num_computed = 5}, {.key = 2, .num_computed = 6}},
      "rank 1 died");
  ASSERT_TRUE(conviction.has_value());
  EXPECT_EQ(conviction->key, 2u);
  EXPECT_THAT(conviction->reason, HasSubstr("lost 2 times"));
  EXPECT_THAT(conviction->reason, HasSubstr("The causes: rank 0 died; rank 1 died"));
  EXPECT_FALSE(suspects.Contains(2));  // it is over with
  EXPECT_FALSE(suspects.Contains(3));  // was only beside the culprit
  EXPECT_TRUE(suspects.Contains(1));   // has not been tried yet
}

TEST(Suspects, StayWhatTheyAreWhenAGroupIsLostWithoutThem) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}}, "a");
  EXPECT_FALSE(suspects.OnLoss({}, "b").has_value());
  EXPECT_TRUE(suspects.Contains(1));
}

TEST(Suspects, BeginAnewOnceTheyWereCleared) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}}, "a");
  suspects.OnDone({.key = 1, .num_computed = 5});
  EXPECT_FALSE(suspects.OnLoss(Parts{{.key = 1, .num_computed = 6}}, "b").has_value());
  const auto conviction = suspects.OnLoss(Parts{{.key = 1, .num_computed = 6}}, "c");
  ASSERT_TRUE(conviction.has_value());
  EXPECT_THAT(conviction->reason, HasSubstr("The causes: b; c"));
}

TEST(Suspects, AreNotConvictedTwoAtATime) {  // one of them may have been preempted before its step was done
  Suspects suspects;
  const Parts both = {{.key = 1, .num_computed = 5}, {.key = 2, .num_computed = 5}};
  suspects.OnLoss(both, "a");
  EXPECT_FALSE(suspects.OnLoss(both, "b").has_value());
  const auto conviction = suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}}, "c");
  ASSERT_TRUE(conviction.has_value());
  EXPECT_THAT(conviction->reason, HasSubstr("lost 3 times"));
  EXPECT_THAT(conviction->reason, HasSubstr("The causes: a; b; c"));
}

TEST(Suspects, AreForgottenWhenTheyEnd) {
  Suspects suspects;
  suspects.OnLoss(Parts{{.key = 1, .num_computed = 5}}, "a");
  suspects.Forget(1);
  suspects.Forget(2);
  EXPECT_TRUE(suspects.empty());
}

}  // namespace
}  // namespace trireme::server
