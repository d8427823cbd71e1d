#include "kernels/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/cpu/round_to_bfloat16.h"

namespace trireme::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float FromBits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Bfloat16Test, WideningAndRoundingAreInverse) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Bfloat16 value{static_cast<std::uint16_t>(bits)};
    if (std::isnan(ToFloat(value))) {
      EXPECT_TRUE(std::isnan(ToFloat(ToBfloat16(ToFloat(value)))));
    } else {
      EXPECT_EQ(ToBfloat16(ToFloat(value)), value);
    }
  }
}

TEST(Bfloat16Test, RoundsToNearestTiesToEven) {
  EXPECT_EQ(ToBfloat16(FromBits(0x3f808000)).bits, 0x3f80);  // tie, even below
  EXPECT_EQ(ToBfloat16(FromBits(0x3f818000)).bits, 0x3f82);  // tie, even above
  EXPECT_EQ(ToBfloat16(FromBits(0x3f808001)).bits, 0x3f81);
  EXPECT_EQ(ToBfloat16(FromBits(0x3f807fff)).bits, 0x3f80);
  EXPECT_EQ(ToFloat(ToBfloat16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(ToBfloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(ToBfloat16(-kInfinity).bits, 0xff80);
  EXPECT_TRUE(std::isnan(ToFloat(ToBfloat16(FromBits(0x7f800001)))));  // whose high half alone is infinity
  EXPECT_TRUE(std::isnan(ToFloat(ToBfloat16(FromBits(0x7fffffff)))));  // which rounding would carry to −0
}

// Bit patterns over the whole range, with the special ones.
std::vector<float> Patterns(std::size_t count) {
  std::vector<float> out = {0.0f,       -0.0f, kInfinity, -kInfinity, FromBits(0x7f800001), FromBits(0xffffffff),
                            FromBits(1)};
  for (std::uint32_t bits = 12345; out.size() < count; bits = bits * 1664525 + 1013904223)
    out.push_back(FromBits(bits));
  out.resize(count);
  return out;
}

TEST(RoundToBfloat16Test, RoundsEachElementAsTheScalarFunction) {
  for (const std::size_t count : {0, 1, 7, 16, 17, 33, 4099}) {
    const std::vector<float> values = Patterns(count);
    std::vector<Bfloat16> halves(count);
    std::vector<float> floats(count);
    cpu::RoundToBfloat16(values, halves.data());
    cpu::RoundToBfloat16(values, floats.data());
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(halves[i], ToBfloat16(values[i])) << values[i];
      EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[i]), std::uint32_t{ToBfloat16(values[i]).bits} << 16);
    }
  }
}

}  // namespace
}  // namespace trireme::kernels
