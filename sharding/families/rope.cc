#include "sharding/families/rope.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace trireme::sharding {
namespace {

float StretchLlama3(float inv_freq, const Llama3Scaling& scaling) {
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / inv_freq;
  const float longest_kept = static_cast<float>(scaling.original_max_positions / scaling.high_freq_factor);
  const float shortest_stretched = static_cast<float>(scaling.original_max_positions / scaling.low_freq_factor);
  const float factor = static_cast<float>(scaling.factor);
  if (wavelength < longest_kept) return inv_freq;
  if (wavelength > shortest_stretched) return inv_freq / factor;
  const float smooth =
      (static_cast<float>(scaling.original_max_positions) / wavelength - static_cast<float>(scaling.low_freq_factor)) /
      static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * inv_freq / factor + smooth * inv_freq;
}

}  // namespace

RopeTable DefaultRope(double theta, int dim) {
  CHECK_GT(dim, 0) << "rotary width";
  CHECK_EQ(dim % 2, 0) << "rotary width " << dim;
  RopeTable table;
  for (int i = 0; i < dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    table.inv_freq.push_back(1.0f / std::pow(static_cast<float>(theta), exponent));
  }
  return table;
}

RopeTable Llama3Rope(double theta, int dim, const Llama3Scaling& scaling) {
  RopeTable table = DefaultRope(theta, dim);
  for (float& inv_freq : table.inv_freq) inv_freq = StretchLlama3(inv_freq, scaling);
  return table;
}

}  // namespace trireme::sharding
