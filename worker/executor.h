// One rank's model: its shard of the weights, its KV cache, its slots; runs steps. Knows no stream and no process.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/dtype.h"
#include "sharding/placement/placement.h"
#include "trireme/worker/v1/control.pb.h"
#include "worker/communicator.h"

namespace trireme::worker {

struct ExecutorOptions {
  std::filesystem::path model_path;
  sharding::DType dtype = sharding::DType::kF32;  // or kBF16
  std::map<std::string, std::string> plan_rules;  // the user's, over the family's
  std::uint32_t max_model_len = 0;                // tokens
  std::uint32_t max_num_seqs = 0;
  std::uint32_t max_num_batched_tokens = 0;
  std::uint32_t max_logit_rows = 0;  // of a step; >= max_num_seqs
  std::uint32_t kv_block_tokens = 0;
  std::uint64_t kv_cache_bytes = 0;
  int num_threads = 1;
};

// Written while loading, read by any thread.
struct LoadProgress {
  std::atomic<std::uint64_t> loaded_bytes = 0;
  std::atomic<std::uint64_t> total_bytes = 0;
};

struct ExecutorSizes {
  std::uint64_t weight_bytes = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::vector<std::uint32_t> num_kv_blocks;  // per KV group
};

// One thread at a time.
class Executor {
 public:
  // Opens the model, compiles the program for the communicator's rank, reads this rank's slices, allocates
  // everything that steps need, and warms up. `communicator` and `progress` outlive the executor. Errors:
  // those of OpenModel and Compile; RESOURCE_EXHAUSTED, with the sums, where kv_cache_bytes hold no block.
  static absl::StatusOr<std::unique_ptr<Executor>> Load(const ExecutorOptions& options, Communicator& communicator,
                                                        LoadProgress& progress);
  virtual ~Executor() = default;

  virtual ExecutorSizes sizes() const = 0;

  // Applies releases and admissions, runs the forward pass over the items, samples. Every rank returns the same tokens,
  // and the same errors of sequences that cannot go on. Nothing is allocated but the result and what admissions bring.
  // INVALID_ARGUMENT for a step that contradicts the slots (the control stream is then broken); errors of the
  // communicator. That steps come in order is StepLoop's to check.
  virtual absl::StatusOr<v1::StepResult> Run(const v1::Step& step) = 0;

  // For tests and `verify`: the logits [logit rows, vocabulary] of the last step, gathered from all ranks
  // (a collective: every rank calls it).
  virtual absl::StatusOr<std::vector<float>> GatherLogits() = 0;
};

}  // namespace trireme::worker
