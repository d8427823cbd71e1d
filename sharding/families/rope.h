// Rotary frequencies, in float32 and in the order in which Transformers computes them.
#pragma once
#include <cstdint>

#include "sharding/program/program.h"

namespace trireme::sharding {

// inv_freq[i] = theta^(−2i / dim) for i < dim / 2. REQUIRES: dim even and > 0, theta > 0.
RopeTable DefaultRope(double theta, int dim);

// Stretches wavelengths beyond the original context by `factor`, leaves short ones alone, blends in between.
struct Llama3Scaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_max_positions = 8192;
};
RopeTable Llama3Rope(double theta, int dim, const Llama3Scaling& scaling);

}  // namespace trireme::sharding
