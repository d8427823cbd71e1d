#include "client/bench/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace trireme::client {
namespace {

TEST(Percentile, IsNumPysLinearInterpolation) {
  // numpy.percentile([1, 2, 4, 8, 16], q), and so on.
  const std::vector<double> five = {1, 2, 4, 8, 16};
  EXPECT_DOUBLE_EQ(Percentile(five, 0), 1);
  EXPECT_DOUBLE_EQ(Percentile(five, 10), 1.4);
  EXPECT_DOUBLE_EQ(Percentile(five, 25), 2);
  EXPECT_DOUBLE_EQ(Percentile(five, 50), 4);
  EXPECT_DOUBLE_EQ(Percentile(five, 90), 12.8);
  EXPECT_DOUBLE_EQ(Percentile(five, 99), 15.68);
  EXPECT_DOUBLE_EQ(Percentile(five, 100), 16);
  EXPECT_DOUBLE_EQ(Percentile({3, 5}, 50), 4);
  for (const double percent : {0.0, 50.0, 99.0, 100.0}) EXPECT_EQ(Percentile({7}, percent), 7);
}

TEST(Summarize, SortsFirst) {
  std::vector<double> values(1001);
  std::iota(values.rbegin(), values.rend(), 0.0);  // 1000, 999, ... 0
  const Summary summary = Summarize(values);
  EXPECT_EQ(summary.count, 1001u);
  EXPECT_DOUBLE_EQ(summary.mean, 500);
  EXPECT_DOUBLE_EQ(summary.p50, 500);
  EXPECT_DOUBLE_EQ(summary.p90, 900);
  EXPECT_DOUBLE_EQ(summary.p95, 950);
  EXPECT_DOUBLE_EQ(summary.p99, 990);
  EXPECT_EQ(summary.max, 1000);
}

TEST(Summarize, TakesOneValueAndNone) {
  const Summary one = Summarize({2.5});
  EXPECT_EQ(one.count, 1u);
  for (const double value : {one.mean, one.p50, one.p90, one.p95, one.p99, one.max}) EXPECT_EQ(value, 2.5);
  const Summary none = Summarize({});
  EXPECT_EQ(none.count, 0u);
  EXPECT_EQ(none.max, 0);
}

}  // namespace
}  // namespace trireme::client
