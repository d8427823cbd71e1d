// The part of the loop that hands out tokens and ends requests.
#include "server/engine/engine_loop.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace trireme::server {
namespace {

// UNAVAILABLE means that a retry cannot double text.
absl::Status Lost(const ActiveRequest& request, std::string_view why) {
  const std::string message(why);
  return request.num_generated == 0 ? absl::UnavailableError(message) : absl::AbortedError(message);
}

}  // namespace

// Hands to a sequence what the workers tell of its item, unless it has ended or was preempted since the step was sent.
void EngineLoop::Deliver(const Expected& expected, const SlotTokens* told, std::uint64_t step) {
  const auto found = running_.find(expected.key);
  if (found == running_.end() || found->second.place->epoch != expected.epoch) return;
  Sequence& sequence = found->second;
  if (told != nullptr && told->epoch == expected.epoch && !told->status.ok()) {
    Fail(sequence.request->key, told->status);
    return;
  }
  if (!Agrees(sequence, expected, told)) {
    Fail(sequence.request->key,
         absl::InternalError(absl::StrCat("the workers' result of step ", step, " has not ",
                                          expected.samples ? "one token" : "no token", " and ",
                                          expected.num_prompt_logprobs, " log-probabilities of the prompt for slot ",
                                          expected.slot, ", epoch ", expected.epoch)));
    return;
  }
  if (expected.num_prompt_logprobs > 0) StreamPromptLogprobs(*sequence.request, told->prompt_tokens);
  if (!expected.samples) return;
  --sequence.num_sampling;
  Stream(sequence, told->tokens.front());
}

bool EngineLoop::Agrees(const Sequence& sequence, const Expected& expected, const SlotTokens* told) const {
  if (told == nullptr || told->epoch != expected.epoch) return false;
  if (told->tokens.size() != expected.samples || told->prompt_tokens.size() != expected.num_prompt_logprobs) {
    return false;
  }
  const auto next = sequence.tokens.begin() + sequence.request->num_prompt_logprobs + 1;
  return std::equal(
      told->prompt_tokens.begin(), told->prompt_tokens.end(), next,
      [](const GeneratedToken& given, std::uint32_t id) { return given.token_id == id && given.logprob.has_value(); });
}

void EngineLoop::StreamPromptLogprobs(ActiveRequest& request, const std::vector<GeneratedToken>& tokens) {
  request.num_prompt_logprobs += static_cast<std::uint32_t>(tokens.size());
  request.observer->OnPromptLogprobs(tokens);
}

void EngineLoop::Stream(Sequence& sequence, const GeneratedToken& token) {
  sequence.tokens.push_back(token.token_id);
  group_->Register(*sequence.place, sequence.request->cache_salt, sequence.computed());
  Count(sequence);
  const AfterTokens wish = sequence.request->observer->OnTokens(sequence.index, {&token, 1});
  // The observer's wish goes first: it has seen a stop string, and says so.
  if (wish == AfterTokens::kStop) return Finish(sequence.key, FinishReason::kStop);
  const std::optional<FinishReason> reason = sequence.ReasonToFinish(length_limit_);
  if (!reason) return;
  const bool is_stop_token = reason == FinishReason::kEos || reason == FinishReason::kStop;
  Finish(sequence.key, *reason, is_stop_token ? std::optional(token.token_id) : std::nullopt);
}

// Keeps times and counts of a token that has just come.
void EngineLoop::Count(Sequence& sequence) {
  ActiveRequest& request = *sequence.request;
  const absl::Duration now = request.Age();
  const bool is_first = !request.first_token.has_value();
  const std::optional<absl::Duration> last_token = std::exchange(sequence.last_token, now);
  if (is_first) request.first_token = now;
  ++request.num_generated;
  if (statistics_ == nullptr) return;
  if (is_first) statistics_->OnFirstToken(now);
  if (last_token) statistics_->OnInterToken(now - *last_token);
  statistics_->OnTokens(is_first ? request.num_prompt_tokens() : 0, 1);
}

void EngineLoop::Finish(std::uint64_t key, FinishReason reason, std::optional<std::uint32_t> matched_stop_token_id) {
  const Sequence sequence = RemoveSequence(key);
  const auto finish = [&](const ActiveRequest& request) {
    request.observer->OnFinish(sequence.index, {.reason = reason,
                                                .matched_stop_token_id = matched_stop_token_id,
                                                .cached_tokens = request.cached_tokens,
                                                .timings = request.TimingsAtEnd()});
  };
  if (sequence.request->num_unfinished > 0) return finish(*sequence.request);
  finish(RemoveRequest(sequence.request->key, std::string(OutcomeName(reason))));
}

void EngineLoop::FinishAll(std::uint64_t request, FinishReason reason) {
  const std::uint32_t n = requests_.at(request).n;
  for (std::uint32_t index = 0; index < n; ++index) {
    if (Find(request + index) != nullptr) Finish(request + index, reason);
  }
}

void EngineLoop::Fail(std::uint64_t request, const absl::Status& status) {
  const std::uint32_t n = requests_.at(request).n;
  for (std::uint32_t index = 0; index < n; ++index) {
    if (Find(request + index) != nullptr) RemoveSequence(request + index);
  }
  RemoveRequest(request, OutcomeName(status)).observer->OnError(status);
}

void EngineLoop::FailAll(const Sequences& sequences, std::string_view why) {
  while (!sequences.empty()) {
    const ActiveRequest& first = *sequences.begin()->second.request;
    Fail(first.key, Lost(first, why));
  }
}

// Takes a sequence out of everything, so that all it held is free before its observer hears of the end.
Sequence EngineLoop::RemoveSequence(std::uint64_t key) {
  auto node = running_.extract(key);
  if (node.empty()) node = waiting_.extract(key);
  CHECK(!node.empty()) << "no sequence " << key;
  Sequence sequence = std::move(node.mapped());
  if (sequence.place.has_value() && group_.has_value()) group_->Release(*sequence.place);
  --sequence.request->num_unfinished;
  suspects_.Forget(key);
  gate_.EndSequence(CurrentLoads());
  return sequence;
}

// Likewise a request whose sequences are gone: so its id is free.
ActiveRequest EngineLoop::RemoveRequest(std::uint64_t key, std::string outcome) {
  ActiveRequest request = std::move(requests_.extract(key).mapped());
  CHECK_EQ(request.num_unfinished, 0u);
  expiries_.erase({request.expires, key});
  if (statistics_ != nullptr) {
    statistics_->OnRequestEnd({.outcome = std::move(outcome),
                               .prompt_tokens = request.num_prompt_tokens(),
                               .cached_tokens = request.cached_tokens,
                               .generated_tokens = request.num_generated,
                               .max_tokens = request.stopping.max_tokens,
                               .n = request.n,
                               .timings = request.TimingsAtEnd()});
  }
  gate_.Forget(request.id, CurrentLoads());
  return request;
}

const Sequence* EngineLoop::Find(std::uint64_t key) const {
  if (const auto found = running_.find(key); found != running_.end()) return &found->second;
  const auto found = waiting_.find(key);
  return found == waiting_.end() ? nullptr : &found->second;
}

Loads EngineLoop::CurrentLoads() const {
  std::uint32_t num_running_requests = 0;
  const ActiveRequest* last = nullptr;
  for (const auto& [key, sequence] : running_) {  // by key, so those of a request stand together
    num_running_requests += std::exchange(last, sequence.request) != sequence.request;
  }
  Loads loads{.running_requests = num_running_requests,
              .running_sequences = static_cast<std::uint32_t>(running_.size()),
              .preemptions = num_preemptions_,
              .resumptions = num_resumptions_};
  if (group_.has_value()) {
    loads.used_kv_blocks = group_->used_blocks();
    loads.total_kv_blocks = group_->total_blocks();
  }
  return loads;
}

}  // namespace trireme::server
