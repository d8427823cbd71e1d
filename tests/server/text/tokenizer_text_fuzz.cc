// Bytes → a tokenizer's ids → text, with a byte-level and with a byte-fallback tokenizer.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "server/text/incremental_decoder.h"
#include "server/text/tokenizer.h"
#include "server/text/utf8_stream.h"
#include "tests/server/text/text_fixtures.h"
#include "tests/support/fuzz_target.h"

namespace trireme::server {
namespace {

void CheckSpans(const Encoding& encoding, std::size_t text_size) {
  CHECK_EQ(encoding.spans.size(), encoding.ids.size());
  for (const ByteSpan& span : encoding.spans) {
    CHECK_LE(span.begin, span.end);
    CHECK_LE(span.end, text_size);
  }
}

// The bytes as a list of ids, most of them of the vocabulary.
std::vector<std::uint32_t> IdsFrom(std::string_view bytes) {
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    ids.push_back((static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1]) << 8) & 0x3ff);
  }
  return ids;
}

void CheckDecode(const Tokenizer& tokenizer, const std::vector<std::uint32_t>& ids) {
  for (const bool skip_special : {false, true}) {
    IncrementalDecoder decoder(tokenizer, skip_special);
    std::string text;
    for (const std::uint32_t id : ids) {
      const std::string delta = decoder.Push(id);
      CHECK(IsUtf8(delta));
      text += delta;
    }
    text += decoder.Finish();
    CHECK(IsUtf8(text));
    CHECK(text == tokenizer.Decode(ids, skip_special));
  }
}

void Exercise(const Tokenizer& tokenizer, std::string_view bytes) {
  CheckDecode(tokenizer, IdsFrom(bytes));
  const absl::StatusOr<Encoding> encoding = tokenizer.Encode(bytes, /*add_special_tokens=*/true);
  const absl::StatusOr<std::vector<std::uint32_t>> ids = tokenizer.EncodeIds(bytes, /*add_special_tokens=*/true);
  CHECK_EQ(ids.ok(), encoding.ok());
  CHECK_EQ(IsUtf8(bytes), ids.ok());
  if (!ids.ok()) {
    CHECK(ids.status().code() == absl::StatusCode::kInvalidArgument) << " " << ids.status().ToString();
    return;
  }
  CHECK(*ids == encoding->ids);
  CheckSpans(*encoding, bytes.size());
  CheckDecode(tokenizer, *ids);
}

}  // namespace
}  // namespace trireme::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using trireme::server::FixtureTokenizer;
  static const auto* const byte_level = new auto(FixtureTokenizer("text_llama"));
  static const auto* const byte_fallback = new auto(FixtureTokenizer("tokenizer_fallback"));
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  trireme::server::Exercise(**byte_level, bytes);
  trireme::server::Exercise(**byte_fallback, bytes);
  return 0;
}
