// A worker group without workers, for tests of the engine and of what lies above it. It carries out steps on a thread
// of its own, with a model whose next token is a hash of all tokens before it, and it checks each step as strictly as
// workers would have to: slots, epochs, token counts, block tables. Its "KV cache" really lies in the blocks that the
// engine gives out, so that a block given to two sequences shows, and a cached prefix that is none. Whatever is wrong is
// a test failure.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/engine/scheduler.h"
#include "server/engine/step_link.h"

namespace trireme::server {

struct FakeGroupOptions {
  SchedulerLimits limits;
  std::vector<std::uint32_t> num_kv_blocks = {64};  // per KV group
  std::uint32_t max_steps_in_flight = 1;
  std::uint32_t vocab_size = 1000;
  absl::Duration step_time;
};

// The token that the fake model says after `tokens`, in a request's sequence number `sample`.
std::uint32_t FakeNextToken(std::span<const std::uint32_t> tokens, std::uint64_t seed, std::uint32_t vocab_size,
                            std::uint32_t sample = 0);

// The `count` tokens that it generates after `prompt`.
std::vector<std::uint32_t> FakeContinuation(std::vector<std::uint32_t> prompt, std::uint64_t seed,
                                            std::uint32_t vocab_size, std::uint32_t count, std::uint32_t sample = 0);

// The log-probability that it gives token `position` of `tokens`, which are a prompt, with as many alternatives.
GeneratedToken FakePromptLogprob(std::span<const std::uint32_t> tokens, std::size_t position,
                                 std::uint32_t num_alternatives);

// Thread-safe. The listener outlives it, or is told of nothing after Shutdown.
class FakeWorkerGroup final : public StepLink {
 public:
  explicit FakeWorkerGroup(FakeGroupOptions options);
  ~FakeWorkerGroup() override;

  void SetListener(StepListener* listener);
  // Tells the listener that a new generation is up.
  void BringUp();
  // Loses all steps and tells the listener.
  void TakeDown(const absl::Status& cause, bool for_good = false);
  // From now on it takes steps but carries out `num_steps` of them only.
  void Pause(std::uint64_t num_steps = 0);
  void Resume();
  // From now on a step that computes this token kills the group, which is up again at once.
  void DieOf(std::uint32_t token);
  // The next generation's size.
  void SetKvBlocks(std::vector<std::uint32_t> num_kv_blocks);
  // Ends its thread.
  void Shutdown();

  // Steps carried out so far, over all generations, and tokens computed in them.
  std::uint64_t num_steps();
  std::uint64_t num_computed_tokens();
  // Times that it came up.
  std::uint64_t generation();

  // Generations whose loss was excused, in the order in which that was said.
  std::vector<std::uint64_t> excused();

  void Send(const StepCommand& command) override;
  void ExcuseLosses(std::span<const std::uint64_t> generations) override;

 private:
  struct Slot {
    std::uint64_t epoch = 0;
    bool is_taken = false;
    SamplingParams sampling;
    std::uint32_t sample = 0;
    std::vector<std::uint32_t> tokens;
    std::uint32_t num_prompt_tokens = 0;
    std::uint32_t num_computed = 0;
    std::uint32_t first_prompt_logprob = 1;
    std::vector<std::vector<std::uint32_t>> block_tables;  // per KV group
  };

  void Run();
  void BringUpLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeDownLocked(const absl::Status& cause, bool for_good) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDeadly(const StepCommand& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StepResult CarryOut(const StepCommand& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(std::uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Admit(const Admission& admission) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddBlocks(const StepItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckKvCache(const Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SlotTokens CarryOut(const StepItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Compute(Slot& slot, std::uint32_t num_tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t& KvCell(std::size_t group, const Slot& slot, std::uint32_t position)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GeneratedToken Sample(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FakeGroupOptions options_;
  Mutex mutex_;
  CondVar changed_;
  StepListener* listener_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool is_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t steps_until_pause_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  bool is_shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::uint32_t> deadly_token_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t num_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t num_computed_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint64_t> excused_ ABSL_GUARDED_BY(mutex_);
  std::deque<StepCommand> steps_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> num_kv_blocks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<std::uint64_t>> kv_ ABSL_GUARDED_BY(mutex_);  // per KV group, a cell a token
  std::thread thread_;
};

}  // namespace trireme::server
