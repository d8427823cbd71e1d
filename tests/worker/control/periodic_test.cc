#include "worker/control/periodic.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/time/clock.h"

namespace trireme::worker {
namespace {

TEST(Periodic, CallsAgainAndAgainUntilItIsDestroyed) {
  std::atomic<int> calls = 0;
  {
    const Periodic periodic(absl::Milliseconds(1), [&] { ++calls; });
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (calls < 5 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  }
  const int at_end = calls;
  EXPECT_GE(at_end, 5);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(calls, at_end);
}

TEST(Periodic, DoesNotCallBeforeTheFirstInterval) {
  std::atomic<int> calls = 0;
  const absl::Time start = absl::Now();
  {
    const Periodic periodic(absl::Minutes(1), [&] { ++calls; });
  }
  EXPECT_EQ(calls, 0);
  EXPECT_LT(absl::Now() - start, absl::Seconds(30)) << "the end need not wait for the interval";
}

}  // namespace
}  // namespace trireme::worker
