#include "server/engine/engine_loop.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace trireme::server {

void EngineLoop::Run() {
  while (Receive()) {
    SendSteps();
  }
}

// Waits for events and handles them; false once the loop shall end.
bool EngineLoop::Receive() {
  const absl::Time next_deadline = deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first;
  for (Event& event : gate_.Take(next_deadline)) {
    std::visit([this](auto& e) { On(std::move(e)); }, event);
    if (stopped_) return false;
  }
  EndExpired();
  return true;
}

void EngineLoop::On(SubmitEvent event) {
  const std::uint64_t key = event.key;
  const Sequence& sequence = waiting_.try_emplace(key, std::move(event)).first->second;
  if (sequence.deadline != absl::InfiniteFuture()) deadlines_.emplace(sequence.deadline, key);
}

void EngineLoop::On(CancelEvent event) {
  if (Find(event.key) != nullptr) Fail(event.key, absl::CancelledError("cancelled by the client"));
}

void EngineLoop::On(AbortEvent event) {
  if (Find(event.key) != nullptr) Finish(event.key, FinishReason::kAborted);
}

void EngineLoop::On(GroupUpEvent event) {
  group_.emplace(event.capacity, options_.limits.max_num_seqs);
  length_limit_ = LengthLimit(options_, event.capacity);
  last_step_ = 0;
  gate_.Publish(CurrentLoads());
  // The new group may be smaller than that for which the waiting ones were let in.
  std::vector<std::uint64_t> too_long;
  for (const auto& [key, sequence] : waiting_) {
    if (sequence.tokens.size() >= length_limit_) too_long.push_back(key);
  }
  for (const std::uint64_t key : too_long) {
    if (waiting_.at(key).num_generated() > 0) {
      Finish(key, FinishReason::kLength);
    } else {
      Fail(key, absl::ResourceExhaustedError(absl::StrCat("the prompt has ", waiting_.at(key).tokens.size(),
                                                          " tokens; the restarted workers' KV cache can hold ",
                                                          length_limit_ - 1)));
    }
  }
}

void EngineLoop::On(GroupDownEvent event) {
  group_.reset();
  in_flight_.clear();
  gate_.Publish(CurrentLoads());
  const std::string why = absl::StrCat("the worker group was lost: ", event.cause);
  FailAll(running_, why);
  if (event.for_good) FailAll(waiting_, why);
}

void EngineLoop::On(StepResult result) {
  CHECK(!in_flight_.empty()) << "a result of step " << result.number << ", but none is in flight";
  const StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  CHECK_EQ(result.number, step.number);
  if (statistics_ != nullptr) statistics_->OnStep(result.duration, step.num_tokens, step.num_sequences);
  std::unordered_map<std::uint32_t, const SlotTokens*> by_slot;
  for (const SlotTokens& tokens : result.slots) by_slot[tokens.slot] = &tokens;
  for (const Sampling& sampled : step.sampling) {
    const auto found = by_slot.find(sampled.slot);
    Deliver(sampled, found == by_slot.end() ? nullptr : found->second, step.number);
  }
}

void EngineLoop::On(StopEvent) {
  stopped_ = true;
  FailAll(running_, "the server is stopping");
  FailAll(waiting_, "the server is stopping");
}

void EngineLoop::EndExpired() {
  const absl::Time now = absl::Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Sequence& sequence = *Find(deadlines_.begin()->second);
    Fail(sequence.key,
         absl::DeadlineExceededError(absl::StrCat("the deadline passed after ", sequence.num_generated(),
                                                  " of at most ", sequence.stopping.max_tokens, " tokens")));
  }
}

}  // namespace trireme::server
