#include "client/bench/length_distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace trireme::client {
namespace {

LengthDistribution Parse(std::string_view text) {
  LengthDistribution parsed;
  const absl::Status status = ParseFlagValue(text, &parsed);
  EXPECT_TRUE(status.ok()) << status;
  return parsed;
}

std::vector<double> Draw(const LengthDistribution& lengths, int count) {
  Random random(1);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(lengths.Sample(random));
  return values;
}

TEST(LengthDistribution, IsReadAsItIsShown) {
  for (const char* text :
       {"1", "512", "16777216", "uniform:1-1", "uniform:32-512", "lognormal:200.5,100,2000", "lognormal:1,0,1"}) {
    EXPECT_EQ(FormatFlagValue(Parse(text)), text);
  }
}

TEST(LengthDistribution, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "0",
                           "-1",
                           "1.5",
                           "16777217",
                           "x",
                           "uniform:",
                           "uniform:5",
                           "uniform:0-5",
                           "uniform:6-5",
                           "uniform:1-2-3",
                           "uniform:1-x",
                           "lognormal:",
                           "lognormal:5,2",
                           "lognormal:0,1,10",
                           "lognormal:5,-1,10",
                           "lognormal:5,1,0",
                           "lognormal:nan,1,10",
                           "lognormal:inf,1,10",
                           "lognormal:5,inf,10",
                           "lognormal:10,1e300,50",
                           "lognormal:1e-300,1,50",
                           "lognormal:5,1,10,2",
                           "normal:5,1,10"}) {
    LengthDistribution parsed;
    const absl::Status status = ParseFlagValue(text, &parsed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                testing::StartsWith("expected tokens (from 1 to 16777216), as N, uniform:MIN-MAX or "
                                    "lognormal:MEAN,STDDEV,MAX, got \"" +
                                    std::string(text)));
  }
}

TEST(LengthDistribution, IsTheSameLengthWhereFixed) {
  EXPECT_THAT(Draw(Parse("17"), 50), testing::Each(17));
  EXPECT_EQ(Parse("17").max, 17u);
}

TEST(LengthDistribution, IsUniformBothEndsIncluded) {
  constexpr int kCount = 50'000;
  std::map<double, int> counts;
  for (const double length : Draw(Parse("uniform:3-7"), kCount)) ++counts[length];
  ASSERT_EQ(counts.size(), 5u);
  EXPECT_EQ(counts.begin()->first, 3);
  for (const auto& [length, count] : counts) EXPECT_NEAR(count, kCount / 5.0, 5 * std::sqrt(kCount / 5.0)) << length;
}

TEST(LengthDistribution, IsLognormalWithTheGivenMeanAndDeviation) {
  constexpr int kCount = 50'000;
  std::vector<double> lengths = Draw(Parse("lognormal:400,200,100000"), kCount);
  double sum = 0, squares = 0;
  for (const double length : lengths) {
    sum += length;
    squares += length * length;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 400, 5 * 200 / std::sqrt(kCount));
  EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean), 200, 10);
  // Of a lognormal the median is mean / sqrt(1 + (deviation / mean)²).
  std::nth_element(lengths.begin(), lengths.begin() + kCount / 2, lengths.end());
  EXPECT_NEAR(lengths[kCount / 2], 400 / std::sqrt(1.25), 4);
}

TEST(LengthDistribution, KeepsALognormalFromOneToItsMaximum) {
  const std::vector<double> lengths = Draw(Parse("lognormal:4,40,10"), 10'000);
  EXPECT_EQ(*std::min_element(lengths.begin(), lengths.end()), 1);
  EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), 10);
  EXPECT_THAT(Draw(Parse("lognormal:4,0,10"), 10), testing::Each(4));
}

}  // namespace
}  // namespace trireme::client
