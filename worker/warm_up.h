// First steps before the first request: pages are touched, code is generated, and the group proves that it can sum.
#pragma once
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/program_runner.h"
#include "worker/sampler.h"

namespace trireme::worker {

struct WarmUpLimits {
  std::int64_t max_rows = 0;       // of a step and of a sequence
  std::int64_t num_kv_blocks = 0;  // of each KV group
  std::int64_t kv_block_tokens = 0;
  std::size_t num_kv_groups = 0;
};

// A step of one row, and one of as many as a product's small kernels take, or as fit. What they leave in the
// KV cache is nobody's: a sequence reads only what was written for it. A collective.
absl::Status WarmUp(const WarmUpLimits& limits, ProgramRunner& runner, Sampler& sampler);

}  // namespace trireme::worker
