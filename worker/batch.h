// The work of one step as the program sees it: a ragged batch of rows, one for each token that goes through
// the model. Plain data; vectors are reserved once, for the largest step.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/kv_cache.h"
#include "worker/sampling_settings.h"

namespace trireme::worker {

// A row whose logits are wanted, and who wants them.
struct SampledRow {
  std::uint32_t slot = 0;
  std::uint64_t epoch = 0;
  std::uint32_t position = 0;  // of the token that is sampled, in its sequence
  SamplingSettings settings = {};
};

struct Batch {
  std::vector<std::int32_t> token_ids;  // [rows]
  std::vector<std::int32_t> positions;  // [rows], absolute
  // By KV group: the rows of each sequence and its block table.
  std::vector<std::vector<kernels::cpu::SequenceRows>> sequences;
  std::vector<std::int32_t> sampled_rows;  // indices of rows
  std::vector<SampledRow> sampled;         // as long as sampled_rows

  std::int64_t num_rows() const { return static_cast<std::int64_t>(token_ids.size()); }
  std::int64_t num_sampled() const { return static_cast<std::int64_t>(sampled_rows.size()); }
};

}  // namespace trireme::worker
