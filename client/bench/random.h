// Random numbers for workloads. Our own, since the standard library's distributions differ from platform to platform,
// and the same seed shall make the same load.
#pragma once
#include <cstdint>

namespace trireme::client {

// SplitMix64 (Steele, Lea, Flood 2014) and a few distributions over it. Cheap to make: one for each request. Not
// thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // A sequence of its own for each `stream` of the same seed.
  Random(std::uint64_t seed, std::uint64_t stream);

  std::uint64_t Next();                    // any of the 2^64
  std::uint64_t Below(std::uint64_t end);  // each of [0, end) equally often. REQUIRES: end > 0
  double Uniform();                        // in [0, 1), a multiple of 2^-53
  double Normal();                         // mean 0, variance 1 (Box and Muller)
  double Exponential();                    // mean 1
  double Gamma(double shape);              // mean and variance `shape` (Marsaglia and Tsang). REQUIRES: shape > 0

 private:
  std::uint64_t state_;
};

}  // namespace trireme::client
