// All tokens of a vocabulary, by id.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/decoder_rules.h"

namespace trireme::server {

enum class TokenKind : std::uint8_t {
  kAbsent,   // no token has this id
  kText,     // normal, or added to the vocabulary as text
  kSpecial,  // control: "<|im_end|>"; left out where special tokens are to be skipped
};

// Immutable; any number of threads may use one at once.
class TokenTable {
 public:
  // The spelling of token `id` is the bytes [ends[id − 1], ends[id]) of `spellings`; `kinds` is as long as `ends`.
  TokenTable(std::string spellings, std::vector<std::uint32_t> ends, std::vector<TokenKind> kinds, DecoderRules rules);

  // All ids are below.
  std::uint32_t id_bound() const { return static_cast<std::uint32_t>(kinds_.size()); }
  TokenKind kind(std::uint32_t id) const { return id < id_bound() ? kinds_[id] : TokenKind::kAbsent; }

  // The bytes that a token stands for; empty for an id without a token. See DecoderRules.
  std::string Bytes(std::uint32_t id, bool is_first) const { return rules_.TokenBytes(Spelling(id), is_first); }

  const DecoderRules& rules() const { return rules_; }

 private:
  std::string_view Spelling(std::uint32_t id) const;

  std::string spellings_;
  std::vector<std::uint32_t> ends_;
  std::vector<TokenKind> kinds_;
  DecoderRules rules_;
};

}  // namespace trireme::server
