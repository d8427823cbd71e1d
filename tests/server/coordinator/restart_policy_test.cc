#include "server/coordinator/restart_policy.h"

#include <gtest/gtest.h>

namespace trireme::server {
namespace {

constexpr RestartLimits kLimits = {.max_restarts = 5,
                                   .window = absl::Minutes(10),
                                   .first_backoff = absl::Milliseconds(500),
                                   .max_backoff = absl::Seconds(3)};
const absl::Time kStart = absl::UnixEpoch();

TEST(RestartPolicy, WaitsTwiceAsLongEachTimeUpToTheLimit) {
  RestartPolicy policy(kLimits);
  EXPECT_EQ(policy.OnLoss(kStart), absl::Milliseconds(500));
  EXPECT_EQ(policy.OnLoss(kStart), absl::Seconds(1));
  EXPECT_EQ(policy.OnLoss(kStart), absl::Seconds(2));
  EXPECT_EQ(policy.OnLoss(kStart), absl::Seconds(3));
  EXPECT_EQ(policy.OnLoss(kStart), absl::Seconds(3));
}

TEST(RestartPolicy, GivesUpAtTheSixthLossWithinTheWindow) {
  RestartPolicy policy(kLimits);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(policy.OnLoss(kStart + absl::Minutes(i)).has_value()) << i;
  EXPECT_EQ(policy.OnLoss(kStart + absl::Minutes(10) - absl::Nanoseconds(1)), std::nullopt);
}

TEST(RestartPolicy, ForgetsLossesOlderThanTheWindow) {
  RestartPolicy policy(kLimits);
  for (int i = 0; i < 5; ++i) policy.OnLoss(kStart);
  EXPECT_EQ(policy.OnLoss(kStart + absl::Minutes(10)), absl::Milliseconds(500)) << "as if it were the first";
}

TEST(RestartPolicy, NoRestartsAtAllIfNoneAreAllowed) {
  RestartPolicy policy({.max_restarts = 0});
  EXPECT_EQ(policy.OnLoss(kStart), std::nullopt);
}

}  // namespace
}  // namespace trireme::server
