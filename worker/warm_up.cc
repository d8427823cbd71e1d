#include "worker/warm_up.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/status_macros.h"
#include "worker/batch.h"

namespace trireme::worker {
namespace {

// One sequence of `num_rows` tokens of id 0, in the blocks that `block_table` lists; keeps references to it and
// `settings`.
Batch OneSequence(std::int64_t num_rows, std::size_t num_kv_groups, const std::vector<std::int32_t>& block_table,
                  const SamplingSettings& settings) {
  Batch batch;
  batch.token_ids.assign(num_rows, 0);
  batch.positions.resize(num_rows);
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.sequences.assign(
      num_kv_groups,
      {{.query_begin = 0, .num_queries = num_rows, .context_length = 0, .block_table = block_table.data()}});
  batch.logit_row_indices = {static_cast<std::int32_t>(num_rows - 1)};
  batch.logit_rows.push_back({.settings = &settings});
  return batch;
}

}  // namespace

absl::Status WarmUp(const WarmUpLimits& limits, ProgramRunner& runner, Sampler& sampler) {
  constexpr std::int64_t kManyRows = 64;
  const std::int64_t rows_that_fit =
      std::min({kManyRows, limits.max_rows, limits.num_kv_blocks * limits.kv_block_tokens});
  std::vector<std::int32_t> block_table(std::min(limits.num_kv_blocks, kManyRows));
  std::iota(block_table.begin(), block_table.end(), 0);
  const SamplingSettings greedy;
  for (std::int64_t num_rows : {std::int64_t{1}, rows_that_fit}) {
    const Batch batch = OneSequence(num_rows, limits.num_kv_groups, block_table, greedy);
    RETURN_IF_ERROR(runner.Run(batch));
    RETURN_IF_ERROR(sampler.Sample(runner.logits(), batch.logit_rows).status());
  }
  return absl::OkStatus();
}

}  // namespace trireme::worker
