// The engine: takes requests, runs steps on the worker group, gives out tokens. Its loop has five verbs: admit,
// schedule, send, receive, stream.
//
// Threads: one of its own runs the loop and calls observers. Public methods may be called from any thread; they put an
// event into the loop's inbox and return.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/request.h"
#include "server/engine/scheduler.h"
#include "server/engine/step_link.h"

namespace trireme::server {

struct EngineOptions {
  SchedulerLimits limits;
  std::uint32_t max_model_len = 0;
  // Steps sent before the result of the first is read; sampled tokens need not be known to send the next decode.
  std::uint32_t max_steps_in_flight = 1;
};

// How busy it is, at one moment.
struct Loads {
  std::uint32_t running_requests = 0;
  std::uint32_t waiting_requests = 0;
  std::uint32_t used_kv_blocks = 0;   // of the fullest KV group
  std::uint32_t total_kv_blocks = 0;
  bool group_up = false;
};

// What the engine reports to whoever keeps metrics. Called on the engine's thread; must not block.
class EngineStatistics {
 public:
  virtual ~EngineStatistics() = default;
  virtual void OnFirstToken(absl::Duration since_submit) = 0;
  virtual void OnInterToken(absl::Duration gap) = 0;
  virtual void OnStep(absl::Duration worker_time, std::uint32_t num_tokens, std::uint32_t num_sequences) = 0;
  virtual void OnTokens(std::uint32_t prompt_tokens, std::uint32_t generated_tokens) = 0;
  // `outcome`: "eos", "stop", "length", "aborted", or a status code's name in lower case.
  virtual void OnRequestEnd(const char* outcome, absl::Duration since_submit) = 0;
};

class Engine final : public StepListener {
 public:
  // `statistics` may be null; it and the link outlive the engine.
  Engine(const EngineOptions& options, EngineStatistics* statistics);
  ~Engine() override;

  // Before the first event; the link calls this object as its listener.
  void Start(StepLink* link);

  // Ends every request with UNAVAILABLE or ABORTED and stops the loop. Idempotent.
  void Stop();

  // Queues the request. OK: the observer will get exactly one OnFinish or OnError.
  // UNAVAILABLE: no group is up, or draining. ALREADY_EXISTS: a request of this id is alive. RESOURCE_EXHAUSTED: it
  // could never fit in the KV cache (says both sizes). INVALID_ARGUMENT: prompt empty or too long for max_model_len.
  absl::Status Submit(Request request, std::shared_ptr<RequestObserver> observer);

  // Ends a request with CANCELLED (the client has gone). Its blocks are free within a step. Unknown id: nothing.
  void Cancel(const std::string& id);

  // Ends a request normally with FinishReason::kAborted and what there is. Returns whether it was alive.
  bool Abort(const std::string& id);

  // From now on Submit answers UNAVAILABLE; running requests go on.
  void Drain();

  Loads loads() const;

  void OnGroupUp(const GroupCapacity& capacity) override;
  void OnStepResult(StepResult result) override;
  void OnGroupDown(const absl::Status& cause, bool for_good) override;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace trireme::server
