#include "client/bench/length_distribution.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/flags.h"

namespace trireme::client {
namespace {

using Kind = LengthDistribution::Kind;

constexpr std::uint32_t kMaxLength = 1u << 24;
constexpr std::string_view kUniform = "uniform:";
constexpr std::string_view kLognormal = "lognormal:";

std::vector<std::string> Split(std::string_view text, char separator) {
  return absl::StrSplit(std::string(text), separator);
}

bool ParseLength(std::string_view text, std::uint32_t* length) {
  return ParseInRange<std::uint32_t>(text, 1, kMaxLength, length).ok();
}

std::optional<LengthDistribution> ParseUniform(std::string_view text) {
  LengthDistribution uniform{.kind = Kind::kUniform};
  const std::vector<std::string> ends = Split(text, '-');
  if (ends.size() != 2 || !ParseLength(ends[0], &uniform.min) || !ParseLength(ends[1], &uniform.max)) return {};
  return uniform.min <= uniform.max ? std::optional(uniform) : std::nullopt;
}

// sigma² of a lognormal's logarithm: ln(1 + (standard_deviation / mean)²)
double Variance(double mean, double standard_deviation) { return std::log1p(std::pow(standard_deviation / mean, 2)); }

std::optional<LengthDistribution> ParseLognormal(std::string_view text) {
  LengthDistribution lognormal{.kind = Kind::kLognormal, .min = 1};
  const std::vector<std::string> parts = Split(text, ',');
  if (parts.size() != 3 || !trireme::ParseFlagValue(parts[0], &lognormal.mean).ok() ||
      !trireme::ParseFlagValue(parts[1], &lognormal.standard_deviation).ok() ||
      !ParseLength(parts[2], &lognormal.max)) {
    return {};
  }
  const bool is_one = lognormal.mean > 0 && lognormal.standard_deviation >= 0 &&
                      std::isfinite(Variance(lognormal.mean, lognormal.standard_deviation));
  return is_one ? std::optional(lognormal) : std::nullopt;
}

std::optional<LengthDistribution> ParseDistribution(std::string_view text) {
  if (text.starts_with(kUniform)) return ParseUniform(text.substr(kUniform.size()));
  if (text.starts_with(kLognormal)) return ParseLognormal(text.substr(kLognormal.size()));
  LengthDistribution fixed;
  if (!ParseLength(text, &fixed.min)) return {};
  fixed.max = fixed.min;
  return fixed;
}

// exp(N(mu, sigma²)) with the wanted mean and standard deviation: mu = ln(mean) - sigma² / 2
double SampleLognormal(double mean, double standard_deviation, Random& random) {
  const double variance = Variance(mean, standard_deviation);
  return std::exp(std::log(mean) - variance / 2 + std::sqrt(variance) * random.Normal());
}

}  // namespace

std::uint32_t LengthDistribution::Sample(Random& random) const {
  if (kind == Kind::kLognormal) {
    const double length = std::round(SampleLognormal(mean, standard_deviation, random));
    return static_cast<std::uint32_t>(std::clamp(length, 1.0, static_cast<double>(max)));
  }
  return min + static_cast<std::uint32_t>(random.Below(max - min + 1));
}

absl::Status ParseFlagValue(std::string_view text, LengthDistribution* value) {
  const std::optional<LengthDistribution> parsed = ParseDistribution(text);
  if (!parsed.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("expected tokens (from 1 to ", kMaxLength,
                                                   "), as N, uniform:MIN-MAX or lognormal:MEAN,STDDEV,MAX, got \"",
                                                   std::string(text), "\""));
  }
  *value = *parsed;
  return absl::OkStatus();
}

std::string FormatFlagValue(const LengthDistribution& value) {
  switch (value.kind) {
    case Kind::kUniform:
      return absl::StrCat("uniform:", value.min, "-", value.max);
    case Kind::kLognormal:
      return absl::StrCat("lognormal:", value.mean, ",", value.standard_deviation, ",", value.max);
    case Kind::kFixed:
      break;
  }
  return absl::StrCat(value.min);
}

}  // namespace trireme::client
