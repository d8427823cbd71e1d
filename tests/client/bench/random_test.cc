#include "client/bench/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

namespace trireme::client {
namespace {

constexpr int kDraws = 100'000;

// Mean and variance of kDraws values, each `draw()`.
std::pair<double, double> Moments(const std::function<double()>& draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kDraws;
  return {mean, squares / kDraws - mean * mean};
}

TEST(Random, IsSplitMix64) {
  Random random(1234567);  // the values are those of its authors' C code
  for (const std::uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                       4593380528125082431u, 16408922859458223821u}) {
    EXPECT_EQ(random.Next(), expected);
  }
}

TEST(Random, HasAnotherSequenceForEachSeedAndStream) {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (std::uint64_t stream = 0; stream < 100; ++stream) first.insert(Random(seed, stream).Next());
  }
  EXPECT_EQ(first.size(), 10'000u);
  EXPECT_EQ(Random(5, 6).Next(), Random(5, 6).Next());
}

TEST(Random, DrawsEachNumberBelowTheEndEquallyOften) {
  Random random(1);
  std::array<int, 7> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts.at(random.Below(counts.size()));
  const double expected = kDraws / 7.0;
  for (const int count : counts) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected));  // 5 standard deviations
  EXPECT_EQ(random.Below(1), 0u);
  const std::uint64_t most = ~std::uint64_t{0};
  EXPECT_LT(random.Below(most), most);
}

TEST(Random, DrawsRealsFromZeroToOne) {
  Random random(2);
  double least = 1, most = 0;
  const auto [mean, variance] = Moments([&] {
    const double value = random.Uniform();
    least = std::min(least, value);
    most = std::max(most, value);
    return value;
  });
  EXPECT_GE(least, 0.0);
  EXPECT_LT(least, 0.001);
  EXPECT_LT(most, 1.0);
  EXPECT_GT(most, 0.999);
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(variance, 1.0 / 12, 0.002);
}

TEST(Random, DrawsNormals) {
  Random random(3);
  const auto [mean, variance] = Moments([&] { return random.Normal(); });
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(variance, 1, 5 * std::sqrt(2.0 / kDraws));
}

TEST(Random, DrawsGammasOfShapesBelowAndAboveOne) {
  for (const double shape : {0.1, 0.5, 1.0, 2.5, 40.0}) {
    Random random(4);
    const auto [mean, variance] = Moments([&] { return random.Gamma(shape); });
    // The fourth central moment of a gamma is 3 shape² + 6 shape.
    EXPECT_NEAR(mean, shape, 5 * std::sqrt(shape / kDraws)) << shape;
    EXPECT_NEAR(variance, shape, 5 * std::sqrt((2 * shape * shape + 6 * shape) / kDraws)) << shape;
  }
}

// The largest distance between the drawn and the exact distribution function (Kolmogorov and Smirnov).
TEST(Random, DrawsExponentialsOfTheRightDistribution) {
  Random random(5);
  std::vector<double> values(kDraws);
  std::generate(values.begin(), values.end(), [&] { return random.Exponential(); });
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (int i = 0; i < kDraws; ++i) {
    distance = std::max(distance, std::abs((i + 0.5) / kDraws - (1 - std::exp(-values[static_cast<std::size_t>(i)]))));
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(kDraws));  // exceeded once in a thousand seeds
}

}  // namespace
}  // namespace trireme::client
