#include "sharding/families/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::sharding {
namespace {

TEST(DefaultRope, FallsGeometrically) {
  const RopeTable table = DefaultRope(10000, 16);
  ASSERT_EQ(table.inv_freq.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(table.inv_freq[i] / std::pow(10000.0, -2.0 * i / 16), 1, 1e-6) << i;
  }
  EXPECT_EQ(table.scale, 1);
}

// inv_freq of Llama 3.1's settings at a few indices, computed in double from the definition.
TEST(Llama3Rope, KeepsShortWavelengthsStretchesLongOnesAndBlends) {
  const RopeTable plain = DefaultRope(500000, 128);
  const RopeTable table = Llama3Rope(
      500000, 128, {.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_positions = 8192});
  int kept = 0, stretched = 0, blended = 0;
  for (std::size_t i = 0; i < table.inv_freq.size(); ++i) {
    const double inv_freq = plain.inv_freq[i], wavelength = 2 * M_PI / inv_freq;
    double expected = inv_freq;
    if (wavelength > 8192) {
      expected = inv_freq / 8;
      ++stretched;
    } else if (wavelength >= 2048) {
      const double smooth = (8192 / wavelength - 1) / 3;
      expected = (1 - smooth) * inv_freq / 8 + smooth * inv_freq;
      ++blended;
    } else {
      ++kept;
    }
    EXPECT_NEAR(table.inv_freq[i] / expected, 1, 2e-6) << i;
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(blended, 6);
  EXPECT_EQ(stretched, 29);
}

}  // namespace
}  // namespace trireme::sharding
