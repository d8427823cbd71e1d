#include "server/service/generation_output.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/duration_message.h"

namespace trireme::server {
namespace {

v1::Timings ToProto(const RequestTimings& timings) {
  v1::Timings proto;
  if (timings.first_scheduled) *proto.mutable_first_scheduled() = ToMessage(*timings.first_scheduled);
  if (timings.first_token) *proto.mutable_first_token() = ToMessage(*timings.first_token);
  *proto.mutable_finished() = ToMessage(timings.finished);
  return proto;
}

}  // namespace

GenerationOutput::GenerationOutput(OutputPlan plan) : plan_(std::move(plan)) {
  CHECK_GT(plan_.n, 0u);
  continuations_.reserve(plan_.n);
  for (std::uint32_t index = 0; index < plan_.n; ++index) continuations_.emplace_back(plan_, index);
}

AfterTokens GenerationOutput::Add(std::uint32_t index, std::span<const GeneratedToken> tokens) {
  return continuations_.at(index).Add(tokens);
}

void GenerationOutput::End(std::uint32_t index, const Finish& finish) {
  continuations_.at(index).End(finish);
  num_cached_tokens_ = finish.cached_tokens;
  timings_ = finish.timings;
}

bool GenerationOutput::is_ended() const {
  return std::all_of(continuations_.begin(), continuations_.end(),
                     [](const ContinuationOutput& continuation) { return continuation.is_ended(); });
}

bool GenerationOutput::has_delta() const {
  return std::any_of(continuations_.begin(), continuations_.end(),
                     [](const ContinuationOutput& continuation) { return continuation.has_delta(); });
}

std::size_t GenerationOutput::num_unread_bytes() const {
  std::size_t total = 0;
  for (const ContinuationOutput& continuation : continuations_) total += continuation.num_unread_bytes();
  return total;
}

v1::GenerateResponse GenerationOutput::TakeChunk() {
  CHECK(has_delta());
  while (!continuations_[next_].has_delta()) next_ = (next_ + 1) % continuations_.size();
  v1::GenerateResponse response;
  response.set_request_id(plan_.request_id);
  *response.mutable_chunk() = continuations_[next_].TakeChunk();
  next_ = (next_ + 1) % continuations_.size();
  return response;
}

v1::GenerateResponse GenerationOutput::TakeComplete() {
  CHECK(is_ended() && !has_delta());
  v1::GenerateResponse response;
  response.set_request_id(plan_.request_id);
  v1::Complete& complete = *response.mutable_complete();
  std::uint32_t num_tokens = 0;
  for (ContinuationOutput& continuation : continuations_) {
    num_tokens += continuation.num_tokens();
    *complete.add_completions() = continuation.TakeCompletion();
  }
  complete.mutable_usage()->set_prompt_tokens(plan_.num_prompt_tokens);
  complete.mutable_usage()->set_completion_tokens(num_tokens);
  complete.mutable_usage()->set_cached_tokens(num_cached_tokens_);
  complete.set_seed(plan_.seed);
  *complete.mutable_timings() = ToProto(timings_);
  return response;
}

}  // namespace trireme::server
