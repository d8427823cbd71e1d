#include "client/bench/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trireme::client {
namespace {

std::vector<double> Gaps(const ArrivalOptions& options, std::uint64_t seed, int count) {
  Arrivals arrivals(options, seed);
  std::vector<double> gaps;
  absl::Duration former;
  for (int i = 0; i < count; ++i) {
    const absl::Duration next = arrivals.Next();
    gaps.push_back(absl::ToDoubleSeconds(next - former));
    former = next;
  }
  return gaps;
}

TEST(Arrivals, HaveExponentialGapsOfTheSeed) {
  const std::vector<double> gaps = Gaps({.requests_per_second = 4}, 7, 10);
  Random random(7, 0);
  for (const double gap : gaps) EXPECT_NEAR(gap, -std::log(1 - random.Uniform()) / 4, 1e-9);
  EXPECT_NE(gaps, Gaps({.requests_per_second = 4}, 8, 10));
}

TEST(Arrivals, KeepTheRateAndScatterAsToldByBurstiness) {
  constexpr int kCount = 50'000;
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    for (const double gap : Gaps({.requests_per_second = 10, .burstiness = burstiness}, 1, kCount)) {
      EXPECT_GE(gap, 0);
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / kCount;
    const double variance = 0.01 / burstiness;  // mean² / burstiness
    EXPECT_NEAR(mean, 0.1, 5 * std::sqrt(variance / kCount)) << burstiness;
    EXPECT_NEAR((squares / kCount - mean * mean) / variance, 1, 0.1) << burstiness;
  }
}

TEST(Arrivals, AreAllAtTheStartAtAnInfiniteRate) {
  for (const double gap : Gaps({}, 1, 100)) EXPECT_EQ(gap, 0);
  for (const double gap : Gaps({.burstiness = 2}, 1, 100)) EXPECT_EQ(gap, 0);
}

}  // namespace
}  // namespace trireme::client
