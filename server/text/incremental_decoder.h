// Token ids → text, one id at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "server/text/token_table.h"
#include "server/text/utf8_stream.h"

namespace trireme::server {

class Tokenizer;

// Gives out whole code points only, as soon as they are complete. It never fails: an id without a token gives
// nothing, and bytes that are not UTF-8 become U+FFFD (see Utf8Stream).
//
// The text of a sequence of ids *is* the concatenation of what Push and Finish return; Tokenizer::Decode is
// defined so. It equals Hugging Face's decode for byte-level tokenizers always, and for byte-fallback ones
// wherever the bytes are valid UTF-8. (Where they are not, Hugging Face replaces every byte of the run, also
// of characters that it has given out before: no stream can do that.)
//
// Why not tokenizers' DecodeStream: it decodes a growing prefix again and compares, which fails on the above.
//
// One thread at a time. What it needs of the tokenizer it keeps alive.
class IncrementalDecoder {
 public:
  // `skip_special`: special tokens give no text.
  IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special);
  IncrementalDecoder(std::shared_ptr<const TokenTable> tokens, bool skip_special);

  // The text that comes goes on from another: what decoders do at the start only (a leading space is cut off) is not
  // done. REQUIRES: no Push yet.
  void GoOn();

  // Returns the text that `id` completes: valid UTF-8, maybe empty.
  std::string Push(std::uint32_t id);

  // Ends the text: U+FFFD if a code point was left incomplete. The decoder is then as new.
  std::string Finish();

 private:
  std::string StripLeading(std::string text);

  std::shared_ptr<const TokenTable> tokens_;
  bool skip_special_;
  bool is_first_ = true;
  int num_to_strip_;  // leading occurrences that may still be cut off
  Utf8Stream utf8_;
};

}  // namespace trireme::server
