// The engine's loop: receive events, admit and schedule sequences, send steps, stream tokens.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/active_request.h"
#include "server/engine/convicted_prompts.h"
#include "server/engine/engine.h"
#include "server/engine/gate.h"
#include "server/engine/group_ledger.h"
#include "server/engine/scheduler.h"
#include "server/engine/sequence.h"
#include "server/engine/step_cost.h"
#include "server/engine/step_link.h"
#include "server/engine/suspects.h"

namespace trireme::server {

// Belongs to one thread, that which calls Run.
class EngineLoop {
 public:
  // `statistics` may be null. All outlive the loop.
  EngineLoop(const EngineOptions& options, Gate* gate, StepLink* link, EngineStatistics* statistics)
      : options_(options), gate_(*gate), link_(*link), statistics_(statistics) {}

  // Returns when the gate is stopped; then every request has ended.
  void Run();

 private:
  // What the workers will tell of an item.
  struct Expected {
    std::uint64_t key = 0;
    std::uint32_t slot = 0;
    std::uint64_t epoch = 0;  // names the tenancy
    bool samples = false;
    std::uint32_t num_prompt_logprobs = 0;
  };
  struct StepInFlight {
    std::uint64_t number = 0;
    std::vector<Expected> expected;  // of the items of which there is something to tell
    std::vector<StepPart> parts;     // of all items
    std::uint32_t num_tokens = 0;
  };
  using Requests = std::map<std::uint64_t, ActiveRequest>;  // by key
  using Sequences = std::map<std::uint64_t, Sequence>;      // by key

  // Receive.
  bool Receive();
  void On(SubmitEvent event);
  void On(CancelEvent event);
  void On(AbortEvent event);
  void On(GroupUpEvent event);
  void On(GroupDownEvent event);
  void On(StepResult result);
  void On(StopEvent event);
  void EndExpired();
  void EndExpired(const ActiveRequest& request);
  void EndTooLong();
  std::vector<StepPart> PartsInFlight();
  void Convict(const Suspects::Conviction& conviction);
  void EndIfConvicted(const ActiveRequest& request);

  // Admit, schedule, send.
  void SendSteps();
  Snapshot TakeSnapshot() const;
  void CountSharedBlocks(std::vector<SequenceView>& running) const;
  std::vector<SequenceView> AdmissibleViews() const;
  SequenceView WaitingView(const Sequence& sequence) const;
  bool WaitsForPrefix(const Sequence& sequence) const;
  std::uint32_t MaxPromptTokens(const std::vector<SequenceView>& running) const;
  void Carry(const Decision& decision);
  void Preempt(std::uint64_t key);
  void Suspend(std::uint64_t key);
  Admission Admit(std::uint64_t key);
  StepItem Advance(const ScheduledItem& item, StepInFlight& step);

  // Stream.
  void Deliver(const Expected& expected, const SlotTokens* told, std::uint64_t step);
  bool Agrees(const Sequence& sequence, const Expected& expected, const SlotTokens* told) const;
  void StreamPromptLogprobs(ActiveRequest& request, const std::vector<GeneratedToken>& tokens);
  void Stream(Sequence& sequence, const GeneratedToken& token);
  void Count(Sequence& sequence);

  // End sequences, all of a request, or all of those that `sequences` belong to.
  void Finish(std::uint64_t key, FinishReason reason, std::optional<std::uint32_t> matched_stop_token_id = {});
  void FinishAll(std::uint64_t request, FinishReason reason);
  void Fail(std::uint64_t request, const absl::Status& status);
  void FailAll(const Sequences& sequences, std::string_view why);
  Sequence RemoveSequence(std::uint64_t key);
  ActiveRequest RemoveRequest(std::uint64_t request, std::string outcome);
  const Sequence* Find(std::uint64_t key) const;
  Loads CurrentLoads() const;

  const EngineOptions options_;
  Gate& gate_;
  StepLink& link_;
  EngineStatistics* const statistics_;

  bool stopped_ = false;
  Requests requests_;
  Sequences running_;  // hold a place
  Sequences waiting_;
  Suspects suspects_;                                        // among both
  std::set<std::pair<absl::Time, std::uint64_t>> expiries_;  // of requests that have one
  ConvictedPrompts convicted_prompts_;
  std::uint64_t num_preemptions_ = 0;
  std::uint64_t num_resumptions_ = 0;

  // Of the group that is up.
  std::optional<GroupLedger> group_;
  std::uint32_t length_limit_ = 0;
  std::uint64_t last_step_ = 0;
  std::deque<StepInFlight> in_flight_;
  StepCost cost_;
};

}  // namespace trireme::server
