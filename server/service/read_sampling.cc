#include "server/service/read_sampling.h"

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace trireme::server {
namespace {

// Where a number may lie. NaN lies nowhere.
struct Range {
  float min = 0;
  float max = 0;
  bool is_min_valid = true;

  bool Contains(float value) const { return (is_min_valid ? value >= min : value > min) && value <= max; }
  std::string ToString() const {
    return is_min_valid ? absl::StrCat("from ", min, " to ", max) : absl::StrCat("above ", min, " and at most ", max);
  }
};

float Checked(std::string_view field, float value, Range range, Violations& violations) {
  if (!range.Contains(value)) {
    violations.Add(absl::StrCat("sampling.", std::string(field)),
                   absl::StrCat("is ", value, ", must be ", range.ToString()));
  }
  return value;
}

float ReadTemperature(float value, Violations& violations) {
  if (!IsTemperature(value)) {
    violations.Add("sampling.temperature",
                   absl::StrCat("is ", value, ", must be 0, or from ", kMinTemperature, " to ", kMaxTemperature));
  }
  return value;
}

// The filters of the distribution.
void ReadFilters(const SamplingDefaults& defaults, const v1::SamplingParams& params, SamplingParams& result,
                 Violations& violations) {
  constexpr Range kShare = {.min = 0, .max = 1, .is_min_valid = false};
  result.top_k = params.has_top_k() ? params.top_k() : defaults.top_k;
  result.top_p = params.has_top_p() ? Checked("top_p", params.top_p(), kShare, violations) : defaults.top_p;
  result.min_p =
      params.has_min_p() ? Checked("min_p", params.min_p(), {.min = 0, .max = 1}, violations) : defaults.min_p;
  result.typical_p =
      params.has_typical_p() ? Checked("typical_p", params.typical_p(), kShare, violations) : defaults.typical_p;
}

void ReadPenalties(const SamplingDefaults& defaults, const v1::SamplingParams& params, SamplingParams& result,
                   Violations& violations) {
  constexpr Range kRepetition = {.min = kMinRepetitionPenalty, .max = kMaxRepetitionPenalty};
  constexpr Range kAdded = {.min = -kMaxAddedPenalty, .max = kMaxAddedPenalty};
  result.repetition_penalty = params.has_repetition_penalty()
                                  ? Checked("repetition_penalty", params.repetition_penalty(), kRepetition, violations)
                                  : defaults.repetition_penalty;
  result.presence_penalty = Checked("presence_penalty", params.presence_penalty(), kAdded, violations);
  result.frequency_penalty = Checked("frequency_penalty", params.frequency_penalty(), kAdded, violations);
}

std::map<std::uint32_t, float> ReadLogitBias(const ServedModel& model, const ServiceLimits& limits,
                                             const v1::SamplingParams& params, Violations& violations) {
  if (params.logit_bias().size() > limits.max_logit_bias) {
    violations.Add("sampling.logit_bias", absl::StrCat("has ", params.logit_bias().size(), " entries, at most ",
                                                       limits.max_logit_bias, " are taken"));
    return {};
  }
  // In order of ids, so that violations are, too.
  std::map<std::uint32_t, float> result(params.logit_bias().begin(), params.logit_bias().end());
  for (const auto& [id, bias] : result) {
    const std::string field = absl::StrCat("logit_bias[", id, "]");
    if (id >= model.vocab_size) {
      violations.Add("sampling." + field, absl::StrCat("ids are below ", model.vocab_size));
    }
    Checked(field, bias, {.min = -kMaxLogitBias, .max = kMaxLogitBias}, violations);
  }
  return result;
}

std::optional<std::uint32_t> CheckedLogprobs(const ServiceLimits& limits, const std::string& field, std::uint32_t value,
                                             Violations& violations) {
  if (value > limits.max_logprobs) violations.Add(field, absl::StrCat("is ", value, ", at most ", limits.max_logprobs));
  return value;
}

}  // namespace

std::uint64_t RandomNumber() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

SamplingParams ReadSampling(const ServedModel& model, const ServiceLimits& limits, const v1::GenerateRequest& request,
                            Violations& violations) {
  const v1::SamplingParams& params = request.sampling();
  const v1::OutputOptions& output = request.output();
  SamplingParams result;
  result.temperature =
      params.has_temperature() ? ReadTemperature(params.temperature(), violations) : model.sampling.temperature;
  ReadFilters(model.sampling, params, result, violations);
  ReadPenalties(model.sampling, params, result, violations);
  result.logit_bias = ReadLogitBias(model, limits, params, violations);
  result.seed = params.has_seed() ? params.seed() : RandomNumber();
  if (output.has_logprobs()) {
    result.logprobs = CheckedLogprobs(limits, "output.logprobs", output.logprobs(), violations);
  }
  if (output.has_prompt_logprobs()) {
    result.prompt_logprobs = CheckedLogprobs(limits, "output.prompt_logprobs", output.prompt_logprobs(), violations);
  }
  return result;
}

}  // namespace trireme::server
