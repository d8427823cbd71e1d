// float16 and bfloat16 as bits to float32, and float32 to bfloat16. No CPU feature is needed.
//
// To float32 is exact. From float32 rounds to nearest, ties to even; what is too large becomes infinity; a
// NaN stays a NaN with its sign.
#pragma once
#include <bit>
#include <cstdint>

namespace trireme::sharding {

inline float BFloat16ToFloat(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline std::uint16_t FloatToBFloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // A NaN whose payload lies in the low half would become infinity: set the quiet bit.
  const std::uint32_t quiet = (bits >> 16) | 0x0040u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

inline float Float16ToFloat(std::uint16_t half) {
  const std::uint32_t sign = (std::uint32_t{half} & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  // The exponent's bias differs by 112; that of infinities and NaNs is all ones in both.
  const std::uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 224u << 23 : 112u << 23);
  // A subnormal counts units of 2^-24, as does the fraction of 0.5. No subnormal float is met on the way, so that a
  // thread that flushes those to zero gets the same.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(0x3f000000u + magnitude) - 0.5f);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? subnormal : normal));
}

}  // namespace trireme::sharding
