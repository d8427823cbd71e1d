#include "client/bench/random.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace trireme::client {

Random::Random(std::uint64_t seed, std::uint64_t stream) : state_(Random(seed).Next() ^ Random(~stream).Next()) {}

std::uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t Random::Below(std::uint64_t end) {
  CHECK_GT(end, std::uint64_t{0});
  const std::uint64_t first_fair = -end % end;  // 2^64 modulo end: what is below would favour small results
  std::uint64_t value = Next();
  while (value < first_fair) value = Next();
  return value % end;
}

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

double Random::Normal() {
  const double radius = std::sqrt(2 * Exponential());
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

double Random::Exponential() { return -std::log1p(-Uniform()); }

double Random::Gamma(double shape) {
  CHECK_GT(shape, 0.0);
  if (shape < 1) {
    const double larger = Gamma(shape + 1);
    return larger * std::pow(1 - Uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = Normal();
    const double v = std::pow(1 + c * x, 3);
    const double log_of_uniform = std::log1p(-Uniform());
    if (v > 0 && log_of_uniform < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace trireme::client
