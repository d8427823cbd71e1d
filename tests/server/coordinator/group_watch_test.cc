#include "server/coordinator/group_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr WorkerTimeouts kTimeouts = {.frozen_after = absl::Seconds(5),
                                      .hello = absl::Seconds(10),
                                      .load_stall = absl::Seconds(60),
                                      .step_deadline = absl::Seconds(30)};
const absl::Time kStart = absl::UnixEpoch();

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

class GroupWatchTest : public testing::Test {
 protected:
  GroupWatchTest() : watch_(kTimeouts, {"rank 0 (pid 10)", "rank 1 (pid 11)", "rank 2 (pid 12)"}, kStart) {}

  void Configure(absl::Time now) {
    for (int rank = 0; rank < 3; ++rank) watch_.OnHello(rank);
    watch_.OnConfigured(now);
  }
  // Configured and ready at `now`.
  void Serve(absl::Time now) {
    Configure(now);
    BeatAll({.loaded_bytes = 8, .total_bytes = 8}, now);
    for (int rank = 0; rank < 3; ++rank) watch_.OnReady(rank, now);
  }
  void BeatAll(const RankProgress& progress, absl::Time now) {
    for (int rank = 0; rank < 3; ++rank) watch_.OnHeartbeat(rank, progress, now);
  }
  std::string Late(absl::Time now) {
    const std::optional<LateRank> late = watch_.Check(now);
    if (!late) return "";
    EXPECT_THAT(late->what, StartsWith("rank " + std::to_string(late->rank) + " (pid"));
    return late->what;
  }

  GroupWatch watch_;
};

TEST_F(GroupWatchTest, NamesTheRankThatDoesNotDialIn) {
  watch_.OnHello(0);
  watch_.OnHello(2);
  EXPECT_EQ(Late(At(10)), "");
  EXPECT_EQ(Late(At(10.1)), "rank 1 (pid 11) did not dial in within 10s");
}

TEST_F(GroupWatchTest, NoHeartbeatIsDueBeforeTheRanksAreConfigured) {
  watch_.OnHello(0);
  EXPECT_EQ(Late(At(9)), "");
  Configure(At(9));
  EXPECT_EQ(Late(At(14)), "");
  EXPECT_THAT(Late(At(14.1)), HasSubstr("rank 0 (pid 10) sent no heartbeat for 5s"));
}

TEST_F(GroupWatchTest, AFrozenRankIsNamedWithItsLastSteps) {
  Serve(At(1));
  watch_.OnStepSent(17, At(1));
  const RankProgress progress{.loaded_bytes = 8, .total_bytes = 8, .last_step_begun = 17, .last_step_finished = 16};
  BeatAll(progress, At(2));
  watch_.OnHeartbeat(0, progress, At(7));
  watch_.OnHeartbeat(1, progress, At(7));
  EXPECT_EQ(Late(At(7)), "");
  EXPECT_EQ(Late(At(7.1)), "rank 2 (pid 12) sent no heartbeat for 5s; last step begun 17, finished 16");
}

TEST_F(GroupWatchTest, LoadingMayTakeAsLongAsItProgresses) {
  Configure(At(0));
  for (int second = 0; second < 3600; ++second) {
    BeatAll({.loaded_bytes = static_cast<std::uint64_t>(second / 50), .total_bytes = 100}, At(second));
    ASSERT_EQ(Late(At(second)), "") << second;
  }
}

TEST_F(GroupWatchTest, ARankThatWaitsForAPeerThatLoadsIsNotStalled) {
  Configure(At(0));
  for (int second = 0; second < 600; ++second) {
    watch_.OnHeartbeat(0, {.loaded_bytes = 100, .total_bytes = 100}, At(second));
    watch_.OnHeartbeat(1, {.loaded_bytes = static_cast<std::uint64_t>(second), .total_bytes = 1000}, At(second));
    watch_.OnHeartbeat(2, {.loaded_bytes = 100, .total_bytes = 100}, At(second));
    ASSERT_EQ(Late(At(second)), "") << second;
  }
}

TEST_F(GroupWatchTest, AStalledLoadNamesTheRankFurthestBehind) {
  Configure(At(0));
  for (int second = 0; second <= 61; ++second) {
    watch_.OnHeartbeat(0, {.loaded_bytes = 100, .total_bytes = 100}, At(second));
    watch_.OnHeartbeat(1, {.loaded_bytes = 90, .total_bytes = 100}, At(second));
    watch_.OnHeartbeat(2, {.loaded_bytes = 70, .total_bytes = 100}, At(second));
  }
  EXPECT_EQ(Late(At(60)), "");
  EXPECT_EQ(Late(At(60.1)), "rank 2 (pid 12) made no progress for 1m while loading: 70 of 100 bytes");
}

TEST_F(GroupWatchTest, ReadyRanksMayIdleForEver) {
  Serve(At(0));
  for (int second = 0; second < 10000; second += 5) {
    BeatAll({.loaded_bytes = 8, .total_bytes = 8}, At(second));
    ASSERT_EQ(Late(At(second)), "");
  }
}

TEST_F(GroupWatchTest, AStepThatIsNotFinishedNamesTheRankFurthestBehind) {
  Serve(At(0));
  watch_.OnStepSent(1, At(100));
  for (int second = 100; second <= 131; ++second) {
    BeatAll({.loaded_bytes = 8, .total_bytes = 8, .last_step_begun = 1}, At(second));
    watch_.OnHeartbeat(1, {.loaded_bytes = 8, .total_bytes = 8}, At(second));
    watch_.OnStepSent(1, At(second));
  }
  EXPECT_EQ(Late(At(130)), "");
  EXPECT_EQ(Late(At(130.1)), "rank 1 (pid 11) did not finish step 1 within 30s; last step begun 0, finished 0");
}

TEST_F(GroupWatchTest, AStepsTimeBeginsWhenTheOneBeforeItIsFinishedByAll) {
  Serve(At(0));
  watch_.OnStepSent(2, At(0));
  for (int second = 0; second <= 29; ++second) BeatAll({.last_step_begun = 1}, At(second));
  BeatAll({.last_step_begun = 2, .last_step_finished = 1}, At(29));
  for (int second = 29; second <= 60; ++second) {
    BeatAll({.last_step_begun = 2, .last_step_finished = 1}, At(second));
  }
  EXPECT_EQ(Late(At(59)), "");
  EXPECT_THAT(Late(At(59.1)), HasSubstr("did not finish step 2 within 30s"));
}

TEST_F(GroupWatchTest, TimeThatTheWatcherWasStoppedIsNotHeldAgainstTheRanks) {
  Serve(At(0));
  watch_.OnStepSent(1, At(0));
  watch_.Forgive(absl::Seconds(1000));
  EXPECT_EQ(Late(At(1004)), "");
  EXPECT_THAT(Late(At(1006)), HasSubstr("sent no heartbeat"));
}

}  // namespace
}  // namespace trireme::server
