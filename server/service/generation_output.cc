#include "server/service/generation_output.h"

#include <utility>

#include "base/check.h"
#include "base/duration_message.h"

namespace trireme::server {
namespace {

// Tag, length and varint of one id; an estimate is enough for a bound.
constexpr std::size_t kBytesPerTokenId = 4;

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEos:
      return v1::FINISH_REASON_EOS;
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kTimeLimit:
      return v1::FINISH_REASON_TIME_LIMIT;
    case FinishReason::kAborted:
      return v1::FINISH_REASON_ABORTED;
  }
  CHECK(false) << " finish reason " << static_cast<int>(reason);
}

v1::Timings ToProto(const RequestTimings& timings) {
  v1::Timings proto;
  if (timings.first_scheduled) *proto.mutable_first_scheduled() = ToMessage(*timings.first_scheduled);
  if (timings.first_token) *proto.mutable_first_token() = ToMessage(*timings.first_token);
  *proto.mutable_finished() = ToMessage(timings.finished);
  return proto;
}

}  // namespace

GenerationOutput::GenerationOutput(Options options) : options_(std::move(options)) {
  if (options_.tokenizer != nullptr) decoder_.emplace(*options_.tokenizer, options_.skip_special_tokens);
}

void GenerationOutput::Add(std::span<const GeneratedToken> tokens) {
  for (const GeneratedToken& token : tokens) {
    whole_.add_token_ids(token.token_id);
    if (options_.is_stream) {
      delta_.add_token_ids(token.token_id);
      num_unread_bytes_ += kBytesPerTokenId;
    }
    AddLogprob(token);
    if (decoder_ && !options_.stop_token_ids.contains(token.token_id)) AddText(decoder_->Push(token.token_id));
  }
}

void GenerationOutput::End() {
  if (decoder_) AddText(decoder_->Finish());
}

void GenerationOutput::AddText(std::string text) {
  whole_.mutable_text()->append(text);
  if (!options_.is_stream) return;
  delta_.mutable_text()->append(text);
  num_unread_bytes_ += text.size();
}

void GenerationOutput::AddLogprob(const GeneratedToken& token) {
  if (!token.logprob) return;
  v1::TokenLogprob& proto = options_.is_stream ? *delta_.add_logprobs() : *whole_.add_logprobs();
  proto.set_token_id(token.token_id);
  proto.set_token(TokenBytes(token.token_id));
  proto.set_logprob(token.logprob->logprob);
  proto.set_rank(token.logprob->rank);
  for (const TopLogprob& top : token.logprob->top) {
    v1::TopLogprob& top_proto = *proto.add_top();
    top_proto.set_token_id(top.token_id);
    top_proto.set_token(TokenBytes(top.token_id));
    top_proto.set_logprob(top.logprob);
  }
  if (options_.is_stream) num_unread_bytes_ += proto.ByteSizeLong();
}

std::string GenerationOutput::TokenBytes(std::uint32_t id) const {
  return options_.tokenizer == nullptr ? "" : options_.tokenizer->TokenBytes(id);
}

v1::Usage GenerationOutput::usage() const {
  v1::Usage usage;
  usage.set_prompt_tokens(options_.num_prompt_tokens);
  usage.set_completion_tokens(static_cast<std::uint32_t>(whole_.token_ids_size()));
  return usage;
}

v1::GenerateResponse GenerationOutput::TakeChunk() {
  CHECK(has_delta());
  v1::GenerateResponse response;
  response.set_request_id(options_.request_id);
  *delta_.mutable_usage() = usage();
  *response.mutable_chunk() = std::exchange(delta_, v1::Chunk());
  num_unread_bytes_ = 0;
  return response;
}

v1::GenerateResponse GenerationOutput::TakeComplete(const Finish& finish) {
  CHECK(!has_delta());
  v1::GenerateResponse response;
  response.set_request_id(options_.request_id);
  v1::Complete& complete = *response.mutable_complete();
  *complete.mutable_usage() = usage();
  complete.set_seed(options_.seed);
  *complete.mutable_timings() = ToProto(finish.timings);
  whole_.set_finish_reason(ToProto(finish.reason));
  if (finish.matched_stop_token_id) whole_.set_matched_stop_token_id(*finish.matched_stop_token_id);
  *complete.add_completions() = std::exchange(whole_, v1::Completion());
  return response;
}

}  // namespace trireme::server
