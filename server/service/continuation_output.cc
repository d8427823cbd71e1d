#include "server/service/continuation_output.h"

#include <utility>

#include "base/check.h"

namespace trireme::server {
namespace {

// Tag, length and varint of one id; an estimate is enough for a bound.
constexpr std::size_t kBytesPerTokenId = 4;

// Tag and length of an element of a list.
constexpr std::size_t kBytesPerElement = 4;

// In one chunk, unless a single one is larger. gRPC's clients take messages of up to 4 MiB if they are not told more.
constexpr std::size_t kMaxPromptLogprobsBytes = 1u << 20;

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

std::string TokenBytes(const Tokenizer* tokenizer, std::uint32_t id) {
  return tokenizer == nullptr ? "" : tokenizer->TokenBytes(id);
}

void FillLogprob(const Tokenizer* tokenizer, const GeneratedToken& token, v1::TokenLogprob& proto) {
  CHECK(token.logprob.has_value()) << " token " << token.token_id;
  proto.set_token_id(token.token_id);
  proto.set_token(TokenBytes(tokenizer, token.token_id));
  proto.set_logprob(token.logprob->logprob);
  proto.set_rank(token.logprob->rank);
  for (const TopLogprob& top : token.logprob->top) {
    v1::TopLogprob& top_proto = *proto.add_top();
    top_proto.set_token_id(top.token_id);
    top_proto.set_token(TokenBytes(tokenizer, top.token_id));
    top_proto.set_logprob(top.logprob);
  }
}

}  // namespace

ContinuationOutput::ContinuationOutput(const OutputPlan& plan, std::uint32_t index)
    : plan_(plan), stop_filter_(plan.stop_strings, plan.includes_stop) {
  whole_.set_index(index);
  delta_.set_index(index);
  if (plan_.tokenizer != nullptr) decoder_.emplace(*plan_.tokenizer, plan_.skip_special_tokens);
  if (!plan_.echo) return;
  CHECK(decoder_.has_value()) << " an echo without a tokenizer";
  decoder_->GoOn();
  whole_.set_text(*plan_.echo);
  if (plan_.is_stream) delta_.set_text(*plan_.echo);
}

void ContinuationOutput::AddPromptLogprobs(std::span<const GeneratedToken> tokens) {
  for (const GeneratedToken& token : tokens) {
    v1::TokenLogprob proto;
    FillLogprob(plan_.tokenizer.get(), token, proto);
    AddPromptLogprob(std::move(proto));
  }
}

void ContinuationOutput::AddPromptLogprob(v1::TokenLogprob&& proto) {
  if (!plan_.is_stream) {
    *whole_.add_prompt_logprobs() = std::move(proto);
    return;
  }
  const std::size_t size = proto.ByteSizeLong() + kBytesPerElement;
  if (prompt_logprobs_.empty() || num_prompt_logprobs_bytes_ + size > kMaxPromptLogprobsBytes) {
    prompt_logprobs_.emplace_back();
    num_prompt_logprobs_bytes_ = 0;
  }
  num_prompt_logprobs_bytes_ += size;
  prompt_logprobs_.back().Add(std::move(proto));
}

AfterTokens ContinuationOutput::Add(std::span<const GeneratedToken> tokens) {
  for (const GeneratedToken& token : tokens) {
    if (stop_filter_.match() != nullptr) break;
    AddToken(token);
  }
  return stop_filter_.match() != nullptr ? AfterTokens::kStop : AfterTokens::kContinue;
}

void ContinuationOutput::AddToken(const GeneratedToken& token) {
  whole_.add_token_ids(token.token_id);
  if (plan_.is_stream) {
    delta_.add_token_ids(token.token_id);
    num_unread_bytes_ += kBytesPerTokenId;
    has_delta_ = true;
  }
  if (token.logprob) AddLogprob(token);
  if (!decoder_) return;
  if (plan_.stop_token_ids.contains(token.token_id) && !plan_.includes_stop) return;
  AddText(stop_filter_.Push(decoder_->Push(token.token_id), num_tokens() > plan_.min_tokens));
}

void ContinuationOutput::AddText(std::string_view text) {
  whole_.mutable_text()->append(text);
  if (!plan_.is_stream || text.empty()) return;
  delta_.mutable_text()->append(text);
  num_unread_bytes_ += text.size();
  has_delta_ = true;
}

void ContinuationOutput::AddLogprob(const GeneratedToken& token) {
  v1::TokenLogprob& proto = plan_.is_stream ? *delta_.add_logprobs() : *whole_.add_logprobs();
  FillLogprob(plan_.tokenizer.get(), token, proto);
  if (plan_.is_stream) num_unread_bytes_ += proto.ByteSizeLong();
}

void ContinuationOutput::End(const Finish& finish) {
  CHECK(!is_ended_);
  is_ended_ = true;
  if (decoder_ && stop_filter_.match() == nullptr) {
    AddText(stop_filter_.Push(decoder_->Finish(), num_tokens() > plan_.min_tokens));
  }
  AddText(stop_filter_.Finish());
  // What the prompt brings is told, too, where no token has come.
  has_delta_ |= !delta_.text().empty() || !prompt_logprobs_.empty();
  SetFinish(finish);
}

void ContinuationOutput::SetFinish(const Finish& finish) {
  if (stop_filter_.match() != nullptr) {
    whole_.set_finish_reason(v1::FINISH_REASON_STOP);
    whole_.set_matched_stop_string(*stop_filter_.match());
    return;
  }
  whole_.set_finish_reason(ToProto(finish.reason));
  if (finish.matched_stop_token_id) whole_.set_matched_stop_token_id(*finish.matched_stop_token_id);
}

// Tells no token.
v1::Chunk ContinuationOutput::TakePromptLogprobs() {
  v1::Chunk chunk;
  chunk.set_index(delta_.index());
  chunk.mutable_prompt_logprobs()->Swap(&prompt_logprobs_.front());
  chunk.mutable_usage()->set_prompt_tokens(plan_.num_prompt_tokens);
  prompt_logprobs_.pop_front();
  return chunk;
}

v1::Chunk ContinuationOutput::TakeChunk() {
  CHECK(has_delta_);
  if (prompt_logprobs_.size() > 1) return TakePromptLogprobs();
  if (!prompt_logprobs_.empty()) {
    delta_.mutable_prompt_logprobs()->Swap(&prompt_logprobs_.front());
    prompt_logprobs_.clear();
  }
  delta_.mutable_usage()->set_prompt_tokens(plan_.num_prompt_tokens);
  delta_.mutable_usage()->set_completion_tokens(num_tokens());
  v1::Chunk chunk;
  chunk.Swap(&delta_);
  delta_.set_index(chunk.index());
  num_unread_bytes_ = 0;
  has_delta_ = false;
  return chunk;
}

v1::Completion ContinuationOutput::TakeCompletion() {
  CHECK(is_ended_ && !has_delta_);
  return std::exchange(whole_, v1::Completion());
}

}  // namespace trireme::server
