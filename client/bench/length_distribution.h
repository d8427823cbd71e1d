// How long prompts and outputs of a workload are.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/bench/random.h"

namespace trireme::client {

// Numbers of tokens, each at least 1.
struct LengthDistribution {
  enum class Kind { kFixed, kUniform, kLognormal };
  Kind kind = Kind::kFixed;
  std::uint32_t min = 128;  // of kFixed and kUniform
  std::uint32_t max = 128;  // none is longer
  // Of kLognormal, in tokens, before rounding to whole tokens and cutting to [1, max].
  double mean = 0;
  double standard_deviation = 0;

  std::uint32_t Sample(Random& random) const;
};

// "512", "uniform:32-512" (both ends included), "lognormal:MEAN,STDDEV,MAX". For flags, so an error says what was
// expected.
absl::Status ParseFlagValue(std::string_view text, LengthDistribution* value);
// As ParseFlagValue reads it.
std::string FormatFlagValue(const LengthDistribution& value);

}  // namespace trireme::client
