#include "server/text/incremental_decoder.h"

#include <utility>

#include "server/text/tokenizer.h"

namespace trireme::server {

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special)
    : IncrementalDecoder(tokenizer.tokens(), skip_special) {}

IncrementalDecoder::IncrementalDecoder(std::shared_ptr<const TokenTable> tokens, bool skip_special)
    : tokens_(std::move(tokens)), skip_special_(skip_special), num_to_strip_(tokens_->rules().leading_strip().count) {}

void IncrementalDecoder::GoOn() {
  is_first_ = false;
  num_to_strip_ = 0;
}

std::string IncrementalDecoder::Push(std::uint32_t id) {
  const TokenKind kind = tokens_->kind(id);
  if (kind == TokenKind::kAbsent || (skip_special_ && kind == TokenKind::kSpecial)) return {};
  const bool is_first = std::exchange(is_first_, false);
  return StripLeading(utf8_.Push(tokens_->Bytes(id, is_first)));
}

std::string IncrementalDecoder::Finish() {
  std::string rest = StripLeading(utf8_.Finish());
  is_first_ = true;
  num_to_strip_ = tokens_->rules().leading_strip().count;
  return rest;
}

std::string IncrementalDecoder::StripLeading(std::string text) {
  const std::string& content = tokens_->rules().leading_strip().content;
  while (num_to_strip_ > 0 && !text.empty()) {
    if (!text.starts_with(content)) {
      num_to_strip_ = 0;
      break;
    }
    text.erase(0, content.size());
    --num_to_strip_;
  }
  return text;
}

}  // namespace trireme::server
