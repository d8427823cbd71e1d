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
  const absl::Time next_expiry = expiries_.empty() ? absl::InfiniteFuture() : expiries_.begin()->first;
  for (Event& event : gate_.Take(next_expiry)) {
    std::visit([this](auto& e) { On(std::move(e)); }, event);
    if (stopped_) return false;
  }
  EndExpired();
  return true;
}

void EngineLoop::On(SubmitEvent event) {
  if (statistics_ != nullptr) statistics_->OnAccepted();
  const std::uint64_t key = event.key;
  ActiveRequest& request = requests_.try_emplace(key, std::move(event)).first->second;
  for (std::uint32_t index = 0; index < request.n; ++index) waiting_.try_emplace(key + index, &request, index);
  if (request.expires != absl::InfiniteFuture()) expiries_.emplace(request.expires, key);
  EndIfConvicted(request);
}

void EngineLoop::On(CancelEvent event) {
  if (requests_.contains(event.key)) Fail(event.key, {event.code, event.why});
}

void EngineLoop::On(AbortEvent event) {
  if (requests_.contains(event.key)) FinishAll(event.key, FinishReason::kAborted);
}

void EngineLoop::On(GroupUpEvent event) {
  group_.emplace(event.capacity, LedgerOptions{.max_num_seqs = options_.limits.max_num_seqs,
                                               .kv_block_tokens = options_.limits.kv_block_tokens,
                                               .prefix_caching = options_.prefix_caching});
  length_limit_ = LengthLimit(options_, event.capacity);
  last_step_ = 0;
  cost_ = {};
  gate_.Publish(CurrentLoads());
  EndTooLong();
}

// A new group may be smaller than that for which the waiting ones were let in.
void EngineLoop::EndTooLong() {
  std::vector<std::uint64_t> too_long;
  for (const auto& [key, sequence] : waiting_) {
    if (sequence.tokens.size() >= length_limit_) too_long.push_back(key);
  }
  for (const std::uint64_t key : too_long) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) continue;  // ended with its request
    const ActiveRequest& request = *found->second.request;
    if (request.num_generated > 0) {
      Finish(key, FinishReason::kLength);
    } else {
      Fail(request.key, absl::ResourceExhaustedError(absl::StrCat("the prompt has ", request.num_prompt_tokens(),
                                                                  " tokens; the restarted workers' KV cache can hold ",
                                                                  length_limit_ - 1)));
    }
  }
}

void EngineLoop::On(GroupDownEvent event) {
  const std::vector<StepPart> lost = PartsInFlight();
  const std::uint64_t generation = group_.has_value() ? group_->generation() : 0;
  group_.reset();
  in_flight_.clear();
  std::vector<std::uint64_t> suspended;
  while (!running_.empty()) Suspend(suspended.emplace_back(running_.begin()->first));
  if (const auto conviction = suspects_.OnLoss(lost, {generation, event.cause})) Convict(*conviction);
  if (event.for_good) FailAll(waiting_, absl::StrCat("the worker group was lost: ", event.cause));
  for (const std::uint64_t key : suspended) num_resumptions_ += Find(key) != nullptr;
  gate_.Publish(CurrentLoads());
}

void EngineLoop::Convict(const Suspects::Conviction& conviction) {
  link_.ExcuseLosses(conviction.generations);
  const ActiveRequest& convict = *Find(conviction.key)->request;
  convicted_prompts_.Add(convict.prompt, absl::Now());
  Fail(convict.key, KillsWorkersError(conviction.reason));
  for (auto next = requests_.begin(); next != requests_.end();) EndIfConvicted((next++)->second);
}

void EngineLoop::EndIfConvicted(const ActiveRequest& request) {
  if (!convicted_prompts_.Refuse(request.prompt, absl::Now())) return;
  Fail(request.key, KillsWorkersError("requests with the same prompt have killed their workers; it is refused"));
}

// Of sequences that are alive.
std::vector<StepPart> EngineLoop::PartsInFlight() {
  std::vector<StepPart> parts;
  for (const StepInFlight& step : in_flight_) {
    for (const StepPart& part : step.parts) {
      if (Find(part.key) != nullptr) parts.push_back(part);
    }
  }
  return parts;
}

void EngineLoop::On(StepResult result) {
  CHECK(!in_flight_.empty()) << "a result of step " << result.number << ", but none is in flight";
  const StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  CHECK_EQ(result.number, step.number);
  if (statistics_ != nullptr) {
    statistics_->OnStep(result.duration, step.num_tokens, static_cast<std::uint32_t>(step.parts.size()));
  }
  cost_.Observe(step.num_tokens, result.duration);
  for (const StepPart& part : step.parts) suspects_.OnDone(part);
  std::unordered_map<std::uint32_t, const SlotTokens*> by_slot;
  for (const SlotTokens& tokens : result.slots) by_slot[tokens.slot] = &tokens;
  for (const Expected& expected : step.expected) {
    const auto found = by_slot.find(expected.slot);
    Deliver(expected, found == by_slot.end() ? nullptr : found->second, step.number);
  }
}

void EngineLoop::On(StopEvent) {
  stopped_ = true;
  FailAll(running_, "the server is stopping");
  FailAll(waiting_, "the server is stopping");
}

void EngineLoop::EndExpired() {
  const absl::Time now = absl::Now();
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    EndExpired(requests_.at(expiries_.begin()->second));
  }
}

void EngineLoop::EndExpired(const ActiveRequest& request) {
  if (request.deadline > request.expires) return FinishAll(request.key, FinishReason::kTimeLimit);
  const std::uint64_t most = std::uint64_t{request.n} * request.stopping.max_tokens;
  Fail(request.key, absl::DeadlineExceededError(absl::StrCat("the deadline passed after ", request.num_generated,
                                                             " of at most ", most, " tokens")));
}

}  // namespace trireme::server
