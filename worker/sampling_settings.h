// How the next token of a sequence is chosen. Checked when a sequence is admitted; the sampler may trust it.
#pragma once
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "trireme/worker/v1/control.pb.h"

namespace trireme::worker {

struct SamplingSettings {
  float temperature = 0;    // >= 0; 0 is greedy, and then top_k and top_p mean nothing
  std::uint32_t top_k = 0;  // 0 keeps all
  float top_p = 1;          // in (0, 1]
  std::uint64_t seed = 0;
  std::optional<std::uint32_t> num_logprobs = std::nullopt;  // of the likeliest tokens; at most kMaxLogprobs

  bool is_greedy() const { return temperature == 0; }
  bool keeps_all() const { return top_k == 0 && top_p == 1; }
};

inline constexpr std::uint32_t kMaxLogprobs = 256;

// InvalidArgument names the field, its value and what would be right.
absl::StatusOr<SamplingSettings> SamplingSettingsFrom(const v1::Sampling& sampling);

}  // namespace trireme::worker
