#include "server/coordinator/restart_policy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace trireme::server {
namespace {

constexpr RestartLimits kLimits = {.max_restarts = 5,
                                   .window = absl::Minutes(10),
                                   .first_backoff = absl::Milliseconds(500),
                                   .max_backoff = absl::Seconds(3)};
const absl::Time kStart = absl::UnixEpoch();

TEST(RestartPolicy, WaitsTwiceAsLongEachTimeUpToTheLimit) {
  RestartPolicy policy(kLimits);
  EXPECT_EQ(policy.OnLoss(1, kStart), absl::Milliseconds(500));
  EXPECT_EQ(policy.OnLoss(2, kStart), absl::Seconds(1));
  EXPECT_EQ(policy.OnLoss(3, kStart), absl::Seconds(2));
  EXPECT_EQ(policy.OnLoss(4, kStart), absl::Seconds(3));
  EXPECT_EQ(policy.OnLoss(5, kStart), absl::Seconds(3));
}

TEST(RestartPolicy, GivesUpAtTheSixthLossWithinTheWindow) {
  RestartPolicy policy(kLimits);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(policy.OnLoss(1 + i, kStart + absl::Minutes(i)).has_value()) << i;
  EXPECT_EQ(policy.OnLoss(6, kStart + absl::Minutes(10) - absl::Nanoseconds(1)), std::nullopt);
}

TEST(RestartPolicy, ForgetsLossesOlderThanTheWindow) {
  RestartPolicy policy(kLimits);
  for (std::uint64_t i = 0; i < 5; ++i) policy.OnLoss(1 + i, kStart);
  EXPECT_EQ(policy.OnLoss(6, kStart + absl::Minutes(10)), absl::Milliseconds(500)) << "as if it were the first";
}

TEST(RestartPolicy, DoesNotCountLossesThatWereExcused) {
  RestartPolicy policy(kLimits);
  EXPECT_TRUE(policy.OnLoss(1, kStart).has_value());
  for (std::uint64_t generation = 2; generation < 100; generation += 2) {
    EXPECT_TRUE(policy.OnLoss(generation, kStart).has_value()) << generation;
    EXPECT_EQ(policy.OnLoss(generation + 1, kStart), absl::Seconds(2)) << generation;
    policy.Excuse(std::vector{generation, generation + 1, std::uint64_t{1000}});
  }
  for (std::uint64_t generation = 100; generation < 104; ++generation) {
    EXPECT_TRUE(policy.OnLoss(generation, kStart).has_value()) << generation;
  }
  EXPECT_EQ(policy.OnLoss(104, kStart), std::nullopt) << "the first counts still";
}

TEST(RestartPolicy, NoRestartsAtAllIfNoneAreAllowed) {
  RestartPolicy policy({.max_restarts = 0});
  EXPECT_EQ(policy.OnLoss(1, kStart), std::nullopt);
}

}  // namespace
}  // namespace trireme::server
