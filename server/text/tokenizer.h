// Text → token ids and back: Hugging Face's tokenizers.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/gguf_tokenizer.h"
#include "server/text/text_ends.h"
#include "server/text/token_table.h"

namespace trireme::server {

// The bytes [begin, end) of a text that a token stands for. Those of a character that several tokens make up overlap.
struct ByteSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const ByteSpan&, const ByteSpan&) = default;
};

struct Encoding {
  std::vector<std::uint32_t> ids;
  std::vector<ByteSpan> spans;  // one for each id; [0, 0) for special tokens that were added
};

// Immutable; any number of threads may use one at once.
class Tokenizer {
 public:
  // From the text of a tokenizer.json. `ends`, if given, replaces what the file says that add_special_tokens adds.
  //
  // InvalidArgument: not a tokenizer.json, or a token of `ends` is not in the vocabulary. Unimplemented: a
  // decoder that does not work token by token (see DecoderRules).
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromJson(std::string_view tokenizer_json,
                                                                   const std::optional<TextEnds>& ends = std::nullopt);

  // From the metadata of a GGUF file; see gguf_tokenizer.h for what is supported.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromGguf(const GgufVocabulary& vocabulary);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Special tokens that are spelled out in `text` become their ids. `add_special_tokens` adds what the model
  // wants around a text, such as a BOS: right for plain prompts, wrong for rendered chat templates.
  //
  // InvalidArgument: `text` is not UTF-8, or holds a run of millions of characters that the tokenizer's regular
  // expression does not cut.
  absl::StatusOr<Encoding> Encode(std::string_view text, bool add_special_tokens) const;
  // The same without spans, faster.
  absl::StatusOr<std::vector<std::uint32_t>> EncodeIds(std::string_view text, bool add_special_tokens) const;

  // What an IncrementalDecoder makes of `ids`. Valid UTF-8, whatever the ids; see there.
  std::string Decode(std::span<const std::uint32_t> ids, bool skip_special) const;

  // The bytes that a token stands for, not always UTF-8 by themselves. Empty for an id without a token.
  std::string TokenBytes(std::uint32_t id) const;

  const std::shared_ptr<const TokenTable>& tokens() const { return tokens_; }

 private:
  struct Impl;
  Tokenizer(std::unique_ptr<Impl> impl, std::shared_ptr<const TokenTable> tokens);

  std::unique_ptr<Impl> impl_;
  std::shared_ptr<const TokenTable> tokens_;
};

}  // namespace trireme::server
