#include "worker/sampling_settings.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace trireme::worker {

absl::StatusOr<SamplingSettings> SamplingSettingsFrom(const v1::Sampling& sampling) {
  if (!std::isfinite(sampling.temperature()) || sampling.temperature() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature is ", sampling.temperature(), "; it must be finite and at least 0"));
  }
  if (!(sampling.top_p() > 0 && sampling.top_p() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("top_p is ", sampling.top_p(), "; it must be in (0, 1]"));
  }
  if (sampling.logprobs() > kMaxLogprobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("logprobs is ", sampling.logprobs(), "; it must be at most ", kMaxLogprobs));
  }
  SamplingSettings settings = {.temperature = sampling.temperature(),
                               .top_k = sampling.top_k(),
                               .top_p = sampling.top_p(),
                               .seed = sampling.seed()};
  if (sampling.has_logprobs()) settings.num_logprobs = sampling.logprobs();
  return settings;
}

}  // namespace trireme::worker
