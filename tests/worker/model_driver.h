// A front end for tests: drives one rank's executor by steps, and gives out KV blocks. Every rank has one and
// makes the same calls.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trireme/worker/v1/control.pb.h"
#include "worker/executor.h"

namespace trireme::worker {

// Small limits that suit the fixtures: 8 slots, 256 tokens, steps of 128 rows and 16 rows of logits, blocks of 16
// tokens, 4 MiB of KV cache.
ExecutorOptions SmallOptions(const std::filesystem::path& model);

// All that does nothing, as it is said on the wire.
v1::Sampling Greedy();
v1::Sampling GreedyWithLogprobs(std::uint32_t num_logprobs = 0);

struct Work {
  std::uint32_t slot = 0;
  std::uint32_t num_tokens = 0;
};

class ModelDriver {
 public:
  ModelDriver(Executor& executor, const ExecutorOptions& options);

  // These take effect with the next step. `num_prompt_tokens`: of `tokens`; 0 for all.
  void Admit(std::uint32_t slot, const std::vector<std::uint32_t>& tokens, const v1::Sampling& sampling,
             std::uint32_t num_prompt_tokens = 0);
  // The first `num_computed` tokens, whole blocks, are those that `owner` has computed; it stays meanwhile.
  void AdmitBehind(std::uint32_t owner, std::uint32_t num_computed, std::uint32_t slot,
                   const std::vector<std::uint32_t>& tokens, const v1::Sampling& sampling);
  void Release(std::uint32_t slot);

  // Runs a step over these items.
  absl::StatusOr<v1::StepResult> Step(const std::vector<Work>& work);

  // What a slot has sampled since it was admitted.
  const std::vector<v1::SampledToken>& sampled(std::uint32_t slot) const { return slots_.at(slot).sampled; }
  std::vector<std::uint32_t> SampledIds(std::uint32_t slot) const;
  // Of its prompt, since it was admitted.
  const std::vector<v1::SampledToken>& prompt_tokens(std::uint32_t slot) const { return slots_.at(slot).prompt_tokens; }

  // Admits `prompt` to `slot`, computes it in chunks of at most `chunk` tokens, then decodes until
  // `num_tokens` are sampled. `num_prompt_tokens` as in Admit.
  absl::Status Generate(std::uint32_t slot, const std::vector<std::uint32_t>& prompt, const v1::Sampling& sampling,
                        std::uint32_t num_tokens, std::uint32_t chunk, std::uint32_t num_prompt_tokens = 0);

 private:
  struct Slot {
    std::uint32_t num_computed = 0;
    std::vector<std::uint32_t> shared_blocks = {};  // of another slot; the worker does not know them yet
    std::size_t num_shared = 0;
    std::vector<std::uint32_t> blocks = {};  // its own, behind the shared ones
    std::vector<v1::SampledToken> sampled = {};
    std::vector<v1::SampledToken> prompt_tokens = {};
  };

  void AddItem(const Work& work, v1::Step& step);

  Executor& executor_;
  const ExecutorOptions options_;
  v1::Step next_;
  std::uint64_t epoch_ = 0;
  std::map<std::uint32_t, Slot> slots_;
  std::vector<std::uint32_t> free_blocks_;
};

}  // namespace trireme::worker
