#include "server/text/tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "server/text/incremental_decoder.h"
#include "server/text/rust_border.h"

namespace trireme::server {

struct Tokenizer::Impl {
  RustTokenizer rust;
};

namespace {

trireme_text_view ViewOrEmpty(const std::optional<std::string>& text) {
  return text ? View(*text) : trireme_text_view{};
}

absl::StatusOr<RustTokenizer> Load(std::string_view json, const std::optional<TextEnds>& ends) {
  trireme_text_ends rust_ends = {};
  if (ends) rust_ends = {.begin = ViewOrEmpty(ends->begin), .end = ViewOrEmpty(ends->end)};
  trireme_text_tokenizer* tokenizer = nullptr;
  RustBytes error;
  const int code = trireme_text_tokenizer_new(View(json), ends ? &rust_ends : nullptr, &tokenizer, error.out());
  RETURN_IF_ERROR(RustStatus(code, error, "tokenizer"));
  return RustTokenizer(tokenizer);
}

absl::StatusOr<DecoderRules> ReadRules(const trireme_text_tokenizer* tokenizer) {
  RustBytes json, error;
  const int code = trireme_text_tokenizer_decoder(tokenizer, json.out(), error.out());
  RETURN_IF_ERROR(RustStatus(code, error, "tokenizer"));
  return DecoderRules::Parse(json.view());
}

std::vector<TokenKind> KindsFrom(std::string_view bytes) {
  std::vector<TokenKind> kinds;
  kinds.reserve(bytes.size());
  for (const char byte : bytes) {
    kinds.push_back(byte == TRIREME_TEXT_SPECIAL ? TokenKind::kSpecial
                    : byte == TRIREME_TEXT_TOKEN ? TokenKind::kText
                                                 : TokenKind::kAbsent);
  }
  return kinds;
}

absl::StatusOr<std::shared_ptr<const TokenTable>> ReadTokens(const trireme_text_tokenizer* tokenizer) {
  ASSIGN_OR_RETURN(DecoderRules rules, ReadRules(tokenizer));
  RustBytes spellings, kinds, error;
  RustWords ends;
  const int code = trireme_text_tokenizer_vocabulary(tokenizer, spellings.out(), ends.out(), kinds.out(), error.out());
  RETURN_IF_ERROR(RustStatus(code, error, "tokenizer"));
  return std::make_shared<const TokenTable>(std::string(spellings.view()), ends.Copy(), KindsFrom(kinds.view()),
                                            std::move(rules));
}

std::vector<ByteSpan> SpansFrom(const std::vector<std::uint32_t>& words) {
  std::vector<ByteSpan> spans(words.size() / 2);
  for (std::size_t i = 0; i < spans.size(); ++i) spans[i] = {.begin = words[2 * i], .end = words[2 * i + 1]};
  return spans;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl, std::shared_ptr<const TokenTable> tokens)
    : impl_(std::move(impl)), tokens_(std::move(tokens)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(std::string_view tokenizer_json,
                                                                     const std::optional<TextEnds>& ends) {
  ASSIGN_OR_RETURN(RustTokenizer rust, Load(tokenizer_json, ends));
  ASSIGN_OR_RETURN(std::shared_ptr<const TokenTable> tokens, ReadTokens(rust.get()));
  auto impl = std::make_unique<Impl>(Impl{.rust = std::move(rust)});
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl), std::move(tokens)));
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromGguf(const GgufVocabulary& vocabulary) {
  ASSIGN_OR_RETURN(GgufTokenizer tokenizer, TokenizerFromGguf(vocabulary));
  return FromJson(tokenizer.json, tokenizer.ends);
}

absl::StatusOr<Encoding> Tokenizer::Encode(std::string_view text, bool add_special_tokens) const {
  RustWords ids, spans;
  RustBytes error;
  const int code = trireme_text_tokenizer_encode(impl_->rust.get(), View(text), add_special_tokens, ids.out(),
                                                 spans.out(), error.out());
  RETURN_IF_ERROR(RustStatus(code, error, "text"));
  return Encoding{.ids = ids.Copy(), .spans = SpansFrom(spans.Copy())};
}

absl::StatusOr<std::vector<std::uint32_t>> Tokenizer::EncodeIds(std::string_view text, bool add_special_tokens) const {
  RustWords ids;
  RustBytes error;
  const int code = trireme_text_tokenizer_encode(impl_->rust.get(), View(text), add_special_tokens, ids.out(),
                                                 /*spans=*/nullptr, error.out());
  RETURN_IF_ERROR(RustStatus(code, error, "text"));
  return ids.Copy();
}

std::string Tokenizer::Decode(std::span<const std::uint32_t> ids, bool skip_special) const {
  IncrementalDecoder decoder(tokens_, skip_special);
  std::string text;
  for (const std::uint32_t id : ids) text += decoder.Push(id);
  return text + decoder.Finish();
}

std::string Tokenizer::TokenBytes(std::uint32_t id) const { return tokens_->Bytes(id, /*is_first=*/false); }

}  // namespace trireme::server
