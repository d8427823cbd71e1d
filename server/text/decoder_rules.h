// How a tokenizer's decoder turns the spelling of a token into the bytes it stands for.
//
// Hugging Face's decoders work on the whole sequence of tokens at once. Those of language models can be
// stated token by token, with one rule for the beginning of a text; that is what a stream needs. The others
// are refused by name.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace trireme::server {

// Immutable; any number of threads may use one at once.
class DecoderRules {
 public:
  // `json` is the "decoder" of a tokenizer.json: ByteLevel; Metaspace; or a sequence of Replace or Metaspace, then
  // ByteFallback, Fuse, Strip (each may be missing). Unimplemented names any other, InvalidArgument what is malformed.
  static absl::StatusOr<DecoderRules> Parse(std::string_view json);

  // The bytes that a token stands for; not always UTF-8 by themselves. `is_first`: nothing of the text precedes it.
  std::string TokenBytes(std::string_view spelling, bool is_first) const;

  // Of the text as a whole: up to `count` leading occurrences of `content`, one code point, are cut off.
  struct Strip {
    std::string content;
    int count = 0;
  };
  const Strip& leading_strip() const { return leading_strip_; }

 private:
  // "▁" and what it stands for, among other replacements.
  struct Replacement {
    std::string pattern;
    std::string content;
    bool drop_in_first_token = false;  // Metaspace
  };
  friend class DecoderRulesParser;

  bool is_byte_level_ = false;
  std::vector<Replacement> replacements_;
  bool has_byte_fallback_ = false;
  Strip leading_strip_;
};

}  // namespace trireme::server
