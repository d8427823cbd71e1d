// The engine: takes requests, runs steps on the worker group, gives out tokens. Its loop has five verbs: receive,
// admit, schedule, send, stream.
//
// Threads: one of its own runs the loop and calls observers and statistics. Public methods may be called from any
// thread; they put an event into the loop's inbox and return.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/request.h"
#include "server/engine/scheduler.h"
#include "server/engine/statistics.h"
#include "server/engine/step_link.h"

namespace trireme::server {

struct EngineOptions {
  SchedulerLimits limits;
  std::uint32_t max_model_len = 0;  // prompt and output together, in tokens; > 1
  // Steps sent before the result of the first is read; sampled tokens need not be known to send the next decode.
  std::uint32_t max_steps_in_flight = 1;  // > 0
  // > 0. A request is let in while fewer wait, so that its own `n` may go beyond.
  std::uint32_t max_waiting_sequences = 1024;
  // A step in which streams decode takes so many prompt tokens along that it takes about so many times as long as the
  // decodes alone would (step_cost.h); >= 1. Nothing: as many as limits allow.
  std::optional<double> max_step_stretch = {};
  bool prefix_caching = true;  // whether sequences share the KV blocks of what their tokens begin with (prefix_cache.h)
};

// InvalidArgument names the option that is out of range, or the pair that does not go together.
absl::Status Validate(const EngineOptions& options);

// How busy it is, at one moment.
struct Loads {
  std::uint32_t running_requests = 0;  // of which a sequence runs
  std::uint32_t waiting_requests = 0;  // the others
  std::uint32_t running_sequences = 0;
  std::uint32_t waiting_sequences = 0;
  std::uint32_t used_kv_blocks = 0;   // of the fullest KV group
  std::uint32_t total_kv_blocks = 0;  // of that group; 0 while none is up
  std::uint64_t preemptions = 0;      // since the engine was made; sequences that others took the blocks of
  std::uint64_t resumptions = 0;      // the same; sequences that were running when their group was lost
  bool group_up = false;
  bool draining = false;
};

class Engine final : public StepListener {
 public:
  // `statistics` may be null; it and the link outlive the engine. REQUIRES: Validate(options).ok().
  Engine(const EngineOptions& options, EngineStatistics* statistics);
  ~Engine() override;  // stops it

  // Starts the loop, which sends its steps to `link`; the link calls this object as its listener, from now on.
  void Start(StepLink* link);

  // Ends every request with UNAVAILABLE or ABORTED (if a token was given out) and waits for the loop to end. Submit
  // answers UNAVAILABLE from now on, and the link's calls are ignored. Idempotent. Not to be called by an observer.
  void Stop();

  // Queues the request. OK: the observer will get OnFinish for each of its `n`, or OnError. Else it is never called.
  // UNAVAILABLE: no group is up, or draining. ALREADY_EXISTS: a request of this id is alive. RESOURCE_EXHAUSTED: its
  // prompt could never fit in the KV cache (says both sizes), or the queue is full (IsRetryable tells which).
  // INVALID_ARGUMENT: prompt empty or too long for max_model_len, or max_tokens or n is 0.
  absl::Status Submit(Request request, std::shared_ptr<RequestObserver> observer);

  // Ends the request with `why`, of which payloads are dropped, if it is alive and `observer` is its own: so a late
  // Cancel cannot hit the next request of that id. Its blocks are free within a step. REQUIRES: !why.ok().
  void Cancel(const std::string& id, const RequestObserver* observer,
              const absl::Status& why = absl::CancelledError("cancelled by the client"));

  // Ends a request normally with FinishReason::kAborted and what there is. Returns whether it was alive.
  bool Abort(const std::string& id);

  // From now on Submit answers UNAVAILABLE; requests that are alive go on.
  void Drain();

  // Returns true when no request is alive, false once `deadline` has passed.
  bool WaitUntilIdle(absl::Time deadline) const;

  Loads loads() const;

  // When a group is lost, its running requests go back to the queue and are computed anew by the next: their observers
  // notice a pause, and then the same tokens as ever. Only if it is down for good do they end, and those that wait,
  // too: UNAVAILABLE, or ABORTED if a token was given out. One that is to blame for two losses (suspects.h) ends alone,
  // with INTERNAL; and whoever comes with a prompt of which two have ended so (convicted_prompts.h).
  void OnGroupUp(const GroupCapacity& capacity) override;
  void OnStepResult(StepResult result) override;
  void OnGroupDown(const absl::Status& cause, bool for_good) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::server
