#include "server/engine/engine_loop.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace trireme::server {
namespace {

std::string_view OutcomeName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEos:
      return "eos";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kTimeLimit:
      return "time_limit";
    case FinishReason::kAborted:
      return "aborted";
  }
  CHECK(false) << "unknown FinishReason " << static_cast<int>(reason);
  return "";
}

std::string OutcomeName(const absl::Status& status) {
  return absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
}

// UNAVAILABLE means that a retry cannot double text.
absl::Status Lost(const Sequence& sequence, std::string_view why) {
  const std::string message(why);
  return sequence.num_generated() == 0 ? absl::UnavailableError(message) : absl::AbortedError(message);
}

}  // namespace

void EngineLoop::Run() {
  while (Receive()) {
    SendSteps();
  }
}

// ---- Receive.

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

// ---- Admit, schedule, send.

void EngineLoop::SendSteps() {
  while (group_.has_value() && in_flight_.size() < options_.max_steps_in_flight) {
    const Decision decision = Schedule(options_.limits, TakeSnapshot());
    if (decision.items.empty()) {
      CHECK(!in_flight_.empty() || (running_.empty() && waiting_.empty())) << "nothing to do, but requests are alive";
      break;
    }
    Carry(decision);
  }
}

Snapshot EngineLoop::TakeSnapshot() const {
  Snapshot snapshot;
  for (const auto& [key, sequence] : running_) snapshot.running.push_back(sequence.View(length_limit_));
  for (const auto& [key, sequence] : waiting_) {
    if (snapshot.waiting.size() == options_.limits.max_num_seqs) break;  // no step admits more
    snapshot.waiting.push_back(sequence.View(length_limit_));
  }
  snapshot.free_blocks = group_->free_blocks();
  return snapshot;
}

// Carries a decision out and sends it as a step.
void EngineLoop::Carry(const Decision& decision) {
  StepCommand command;
  command.generation = group_->generation();
  command.number = ++last_step_;
  StepInFlight step{.number = command.number, .sampling = {}};
  for (const std::uint64_t key : decision.preempt) Preempt(key);
  for (const std::uint64_t key : decision.admit) command.admissions.push_back(Admit(key));
  for (const ScheduledItem& item : decision.items) command.items.push_back(Advance(item, step));
  command.releases = group_->TakeReleases();
  in_flight_.push_back(std::move(step));
  gate_.Publish(CurrentLoads());
  link_.Send(command);
}

// What steps in flight sample for it is dropped, for its place is gone; it will be sampled again, the same.
void EngineLoop::Preempt(std::uint64_t key) {
  Sequence& sequence = waiting_.insert(running_.extract(key)).position->second;
  group_->Release(*sequence.place);
  sequence.place.reset();
  sequence.num_computed = 0;
  sequence.num_sampling = 0;
  ++num_preemptions_;
}

Admission EngineLoop::Admit(std::uint64_t key) {
  Sequence& sequence = running_.insert(waiting_.extract(key)).position->second;
  sequence.place = group_->Admit();
  if (!sequence.first_scheduled.has_value()) sequence.first_scheduled = sequence.Age();
  return {.slot = sequence.place->slot,
          .epoch = sequence.place->epoch,
          .tokens = sequence.tokens,
          .num_prompt_tokens = sequence.num_prompt_tokens,
          .num_computed = 0,
          .sampling = sequence.sampling,
          .ending_token_ids = {}};
}

StepItem EngineLoop::Advance(const ScheduledItem& item, StepInFlight& step) {
  Sequence& sequence = running_.at(item.key);
  sequence.num_computed += item.num_tokens;
  step.num_tokens += item.num_tokens;
  ++step.num_sequences;
  if (sequence.num_computed == sequence.tokens.size() + sequence.num_sampling) {
    ++sequence.num_sampling;
    step.sampling.push_back({.key = item.key, .slot = sequence.place->slot, .epoch = sequence.place->epoch});
  }
  return {.slot = sequence.place->slot,
          .num_tokens = item.num_tokens,
          .new_blocks = group_->Extend(*sequence.place, item.new_blocks)};
}

// ---- Stream.

// Hands a sampled token to its sequence, unless that has ended or was preempted since the step was sent.
void EngineLoop::Deliver(const Sampling& sampled, const SlotTokens* tokens, std::uint64_t step) {
  const auto found = running_.find(sampled.key);
  if (found == running_.end() || found->second.place->epoch != sampled.epoch) return;
  if (tokens == nullptr || tokens->epoch != sampled.epoch || tokens->tokens.size() != 1) {
    Fail(sampled.key,
         absl::InternalError(absl::StrCat("the workers' result of step ", step, " has not one token of slot ",
                                          sampled.slot, ", epoch ", sampled.epoch)));
    return;
  }
  --found->second.num_sampling;
  Stream(found->second, tokens->tokens.front());
}

void EngineLoop::Stream(Sequence& sequence, const GeneratedToken& token) {
  sequence.tokens.push_back(token.token_id);
  const absl::Duration now = sequence.Age();
  const bool is_first = !sequence.first_token.has_value();
  if (is_first) sequence.first_token = now;
  if (statistics_ != nullptr) {
    if (is_first) statistics_->OnFirstToken(now);
    if (!is_first) statistics_->OnInterToken(now - sequence.last_token);
    statistics_->OnTokens(is_first ? sequence.num_prompt_tokens : 0, 1);
  }
  sequence.last_token = now;
  const AfterTokens wish = sequence.observer->OnTokens(0, {&token, 1});
  std::optional<FinishReason> reason = sequence.ReasonToFinish(length_limit_);
  std::optional<std::uint32_t> matched_stop_token_id;
  if (reason == FinishReason::kEos || reason == FinishReason::kStop) matched_stop_token_id = token.token_id;
  if (!reason && wish == AfterTokens::kStop) reason = FinishReason::kStop;
  if (reason) Finish(sequence.key, *reason, matched_stop_token_id);
}

void EngineLoop::Finish(std::uint64_t key, FinishReason reason, std::optional<std::uint32_t> matched_stop_token_id) {
  const Sequence sequence = Remove(key, OutcomeName(reason));
  sequence.observer->OnFinish(0, {.reason = reason,
                                  .matched_stop_token_id = matched_stop_token_id,
                                  .timings = {.first_scheduled = sequence.first_scheduled,
                                              .first_token = sequence.first_token,
                                              .finished = sequence.Age()}});
}

void EngineLoop::Fail(std::uint64_t key, const absl::Status& status) {
  Remove(key, OutcomeName(status)).observer->OnError(status);
}

void EngineLoop::FailAll(Sequences& sequences, std::string_view why) {
  while (!sequences.empty()) {
    const Sequence& oldest = sequences.begin()->second;
    Fail(oldest.key, Lost(oldest, why));
  }
}

// Takes a sequence out of everything, so that its id and all it held are free before its observer hears of the end.
Sequence EngineLoop::Remove(std::uint64_t key, std::string_view outcome) {
  auto node = running_.extract(key);
  if (node.empty()) node = waiting_.extract(key);
  CHECK(!node.empty()) << "no sequence " << key;
  Sequence sequence = std::move(node.mapped());
  if (sequence.place.has_value() && group_.has_value()) group_->Release(*sequence.place);
  deadlines_.erase({sequence.deadline, key});
  gate_.Forget(sequence.id, CurrentLoads());
  if (statistics_ != nullptr) statistics_->OnRequestEnd(outcome, sequence.Age());
  return sequence;
}

Sequence* EngineLoop::Find(std::uint64_t key) {
  if (const auto found = running_.find(key); found != running_.end()) return &found->second;
  const auto found = waiting_.find(key);
  return found == waiting_.end() ? nullptr : &found->second;
}

Loads EngineLoop::CurrentLoads() const {
  Loads loads{.running_requests = static_cast<std::uint32_t>(running_.size()), .preemptions = num_preemptions_};
  if (group_.has_value()) {
    loads.used_kv_blocks = group_->used_blocks();
    loads.total_kv_blocks = group_->total_blocks();
  }
  return loads;
}

}  // namespace trireme::server
