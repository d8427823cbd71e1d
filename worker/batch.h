// The work of one step as the program sees it: a ragged batch of rows, one for each token that goes through
// the model. Plain data; vectors are reserved once, for the largest step.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kv_cache.h"
#include "worker/sampling_settings.h"

namespace trireme::worker {

// What is known of a sequence up to some row: prompt and output.
struct History {
  std::span<const std::int32_t> tokens = {};
  std::uint32_t num_prompt_tokens = 0;  // the first of them, all if there are fewer

  std::uint32_t num_generated() const {
    const auto size = static_cast<std::uint32_t>(tokens.size());
    return size > num_prompt_tokens ? size - num_prompt_tokens : 0;
  }
};

// A row whose logits are wanted: to sample the token that follows it, or, where that is known, for its
// log-probability.
struct LogitRow {
  std::uint32_t slot = 0;
  std::uint64_t epoch = 0;
  History history = {};                           // up to this row's own token; the slot's memory
  const SamplingSettings* settings = nullptr;     // the slot's; outlives the step
  std::optional<std::int32_t> prompt_token = {};  // the token that follows

  std::uint32_t position() const { return static_cast<std::uint32_t>(history.tokens.size()); }  // of what follows
  bool is_sampled() const { return !prompt_token.has_value(); }
  // How many likeliest tokens' log-probabilities are wanted beside the token's own; nothing if not even that.
  std::optional<std::uint32_t> num_logprobs() const {
    return is_sampled() ? settings->num_logprobs : settings->num_prompt_logprobs;
  }
};

struct Batch {
  std::vector<std::int32_t> token_ids;  // [rows]
  std::vector<std::int32_t> positions;  // [rows], absolute
  // By KV group: the rows of each sequence and its block table.
  std::vector<std::vector<kernels::cpu::SequenceRows>> sequences;
  std::vector<std::int32_t> logit_row_indices;  // rows whose logits are wanted
  std::vector<LogitRow> logit_rows;             // the same; those of a sequence follow each other

  std::int64_t num_rows() const { return static_cast<std::int64_t>(token_ids.size()); }
  std::int64_t num_logit_rows() const { return static_cast<std::int64_t>(logit_rows.size()); }
};

}  // namespace trireme::worker
