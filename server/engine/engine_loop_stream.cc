// The part of the loop that hands out tokens and ends requests.
#include "server/engine/engine_loop.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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
