// How the next token of a sequence is chosen. Checked when a sequence is admitted; the sampler may trust it.
//
// In the order of application: logit_bias, repetition, frequency and presence penalty, bad_words, min_tokens (these
// change logits: see kernels/sampling.h, LogitEdit); then temperature, top_k, top_p, min_p, typical_p (these drop
// tokens: see worker/token_filter.h). The order is Transformers'.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "trireme/worker/v1/control.pb.h"

namespace trireme::worker {

struct LogitBias {
  std::int32_t id = 0;
  float bias = 0;  // finite
};

struct SamplingSettings {
  std::vector<LogitBias> logit_bias = {};                 // each id once
  float repetition_penalty = 1;                           // > 0; of tokens in prompt and output
  float frequency_penalty = 0;                            // of tokens in the output, for each time
  float presence_penalty = 0;                             // of tokens in the output
  std::vector<std::vector<std::int32_t>> bad_words = {};  // none is empty
  std::uint32_t min_tokens = 0;                           // generated ones, before an ending id may be chosen
  std::vector<std::int32_t> ending_token_ids = {};

  float temperature = 0;    // >= 0; 0 is greedy, and then what follows means nothing
  std::uint32_t top_k = 0;  // 0 keeps all
  float top_p = 1;          // in (0, 1]
  float min_p = 0;          // in [0, 1]
  float typical_p = 1;      // in (0, 1]
  std::uint64_t seed = 0;
  std::uint32_t sample = 0;  // which of a request's parallel samples

  // Of this many likeliest tokens, beside the chosen one or the prompt's. At most kMaxLogprobs.
  std::optional<std::uint32_t> num_logprobs = std::nullopt;
  std::optional<std::uint32_t> num_prompt_logprobs = std::nullopt;

  bool is_greedy() const { return temperature == 0; }
  bool keeps_all() const { return top_k == 0 && top_p == 1 && min_p == 0 && typical_p == 1; }
  bool has_output_penalties() const { return frequency_penalty != 0 || presence_penalty != 0; }
  // Whether logits are changed before the next token is chosen.
  bool edits_logits(std::uint32_t num_generated) const {
    return !logit_bias.empty() || repetition_penalty != 1 || has_output_penalties() || !bad_words.empty() ||
           (num_generated < min_tokens && !ending_token_ids.empty());
  }
};

inline constexpr std::uint32_t kMaxLogprobs = 256;

// InvalidArgument names the field, its value and what would be right. `vocabulary`: number of token ids.
absl::StatusOr<SamplingSettings> SamplingSettingsFrom(const v1::Sampling& sampling, std::int64_t vocabulary);

}  // namespace trireme::worker
