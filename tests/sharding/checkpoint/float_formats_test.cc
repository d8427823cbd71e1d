#include "sharding/checkpoint/float_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace trireme::sharding {
namespace {

// The value of a half by its definition.
float SlowFloat16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

// The nearest value of a format whose values `value_of` gives ascending for bits 0..`infinity`; ties to even bits.
template <typename ValueOf>
std::uint16_t SlowNearest(float value, std::uint16_t infinity, float above_largest, ValueOf value_of) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint16_t low = 0;
  std::uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (static_cast<double>(value_of(middle)) <= magnitude ? low : high) = middle;
  }
  const double above = high == infinity ? above_largest : value_of(high);
  const double to_low = magnitude - value_of(low);
  const double to_high = above - magnitude;
  const bool up = to_high < to_low || (to_high == to_low && low % 2 == 1);
  return sign | (up ? high : low);
}

std::vector<float> InterestingFloats() {
  std::vector<float> values = {0.0f,           -0.0f,         1.0f,          65504.0f, 65519.9f,      65520.0f,
                               65536.0f,       1e30f,         3.4e38f,       INFINITY, 5.9604645e-8f, 2.9802322e-8f,
                               2.98023242e-8f, 6.1035156e-5f, 6.0975552e-5f, 1e-45f};
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
    // Within the range of halves, and exactly between two of them.
    values.push_back(std::ldexp(static_cast<float>(random() % 4096) + 0.5f, static_cast<int>(random() % 40) - 34));
  }
  for (std::size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
  return values;
}

TEST(Float16, EveryValueIsExact) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float expected = SlowFloat16(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(Float16ToFloat(half))) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(Float16ToFloat(half)), std::bit_cast<std::uint32_t>(expected)) << bits;
    }
  }
}

TEST(BFloat16, EveryValueComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = BFloat16ToFloat(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(value)))) << bits;
    } else {
      EXPECT_EQ(FloatToBFloat16(value), bits);
    }
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  const float above_largest = INFINITY;  // 2^128 is no float; values above the largest are tested apart
  for (const float value : InterestingFloats()) {
    if (std::fabs(value) > 3.38e38f) continue;
    ASSERT_EQ(FloatToBFloat16(value), SlowNearest(value, 0x7f80, above_largest, BFloat16ToFloat)) << value;
  }
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(FloatToBFloat16(3.3895314e38f), 0x7f7f);
  EXPECT_EQ(FloatToBFloat16(-INFINITY), 0xff80);
}

TEST(BFloat16, NanWithLowPayloadStaysNan) {
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace trireme::sharding
