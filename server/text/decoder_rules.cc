#include "server/text/decoder_rules.h"

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace trireme::server {
namespace {

using nlohmann::json;

// GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the other 68 for U+0100 and following, in order.
bool IsPrintable(int byte) { return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE; }

constexpr int kAlphabetEnd = 0x144;
using ByteOfCodePoint = std::array<std::int16_t, kAlphabetEnd>;  // −1 outside the alphabet

ByteOfCodePoint MakeAlphabet() {
  ByteOfCodePoint byte_of;
  byte_of.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    byte_of[static_cast<std::size_t>(IsPrintable(byte) ? byte : next++)] = static_cast<std::int16_t>(byte);
  }
  return byte_of;
}

// The bytes that a spelling in GPT-2's alphabet stands for; nothing if a character is outside of it. All of
// the alphabet lies below U+0800, so that a lead byte of three or more is outside.
std::optional<std::string> ByteLevelBytes(std::string_view spelling) {
  static const ByteOfCodePoint alphabet = MakeAlphabet();
  std::string bytes;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    unsigned code_point = static_cast<std::uint8_t>(spelling[i]);
    if (code_point >= 0xE0) return std::nullopt;
    if (code_point >= 0x80 && ++i < spelling.size()) {
      code_point = (code_point & 0x1F) << 6 | (static_cast<std::uint8_t>(spelling[i]) & 0x3F);
    }
    if (code_point >= alphabet.size() || alphabet[code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet[code_point]));
  }
  return bytes;
}

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// The byte of a token spelled "<0xNN>".
std::optional<char> FallbackByte(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') return std::nullopt;
  const auto high = HexDigit(spelling[3]), low = HexDigit(spelling[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high << 4 | *low);
}

absl::Status Malformed(const json& decoder) {
  return absl::InvalidArgumentError(absl::StrCat("malformed decoder ", decoder.dump().substr(0, 200)));
}

absl::Status Unsupported(const json& decoder, std::string_view why) {
  return absl::UnimplementedError(absl::StrCat("decoder ", decoder.dump().substr(0, 200), " is not supported (",
                                               std::string(why),
                                               "); supported are ByteLevel, Metaspace, and sequences of "
                                               "Replace, ByteFallback, Fuse and Strip in this order"));
}

const std::string* TextAt(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

std::optional<int> CountAt(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto count = found->get<std::uint64_t>();
  return count <= 64 ? std::optional<int>(static_cast<int>(count)) : std::nullopt;
}

}  // namespace

// Reads the decoders of a sequence one by one; `stage_` keeps them in the only order that is the same token by token.
class DecoderRulesParser {
 public:
  absl::Status Add(const json& decoder) {
    const std::string* type = decoder.is_object() ? TextAt(decoder, "type") : nullptr;
    if (type == nullptr) return Malformed(decoder);
    if (*type == "ByteLevel") return AddByteLevel(decoder);
    if (*type == "Replace") return AddReplace(decoder);
    if (*type == "Metaspace") return AddMetaspace(decoder);
    if (*type == "ByteFallback") return AddByteFallback(decoder);
    if (*type == "Fuse") return Enter(kFused, decoder);
    if (*type == "Strip") return AddStrip(decoder);
    return Unsupported(decoder, "its type is unknown here");
  }
  DecoderRules Take() { return std::move(rules_); }

 private:
  enum Stage { kSpelling, kBytes, kFused, kStripped, kByteLevel };

  absl::Status Enter(Stage stage, const json& decoder) {
    if (stage < stage_ || stage_ == kByteLevel) return Unsupported(decoder, "its place in the sequence");
    stage_ = stage;
    return absl::OkStatus();
  }

  absl::Status AddByteLevel(const json& decoder) {
    if (stage_ != kSpelling || !rules_.replacements_.empty()) {
      return Unsupported(decoder, "it is not alone in its sequence");
    }
    rules_.is_byte_level_ = true;
    return Enter(kByteLevel, decoder);
  }

  absl::Status AddReplace(const json& decoder) {
    const auto pattern = decoder.find("pattern");
    const std::string* content = TextAt(decoder, "content");
    if (pattern == decoder.end() || !pattern->is_object() || content == nullptr) return Malformed(decoder);
    const std::string* text = TextAt(*pattern, "String");
    if (text == nullptr || text->empty()) return Unsupported(decoder, "its pattern is not a text");
    rules_.replacements_.push_back({.pattern = *text, .content = *content});
    return Enter(kSpelling, decoder);
  }

  absl::Status AddMetaspace(const json& decoder) {
    const std::string* mark = TextAt(decoder, "replacement");
    const std::string* scheme = TextAt(decoder, "prepend_scheme");
    if (mark == nullptr || mark->empty() || scheme == nullptr) return Malformed(decoder);
    rules_.replacements_.push_back({.pattern = *mark, .content = " ", .drop_in_first_token = *scheme != "never"});
    return Enter(kSpelling, decoder);
  }

  absl::Status AddByteFallback(const json& decoder) {
    rules_.has_byte_fallback_ = true;
    return Enter(kBytes, decoder);
  }

  absl::Status AddStrip(const json& decoder) {
    const std::string* content = TextAt(decoder, "content");
    const auto start = CountAt(decoder, "start"), stop = CountAt(decoder, "stop");
    if (content == nullptr || content->empty() || !start || !stop) return Malformed(decoder);
    if (*stop > 0) return Unsupported(decoder, "a stream cannot strip its end");
    if (stage_ != kFused) return Unsupported(decoder, "it does not follow Fuse");
    rules_.leading_strip_ = {.content = *content, .count = *start};
    return Enter(kStripped, decoder);
  }

  Stage stage_ = kSpelling;
  DecoderRules rules_;
};

absl::StatusOr<DecoderRules> DecoderRules::Parse(std::string_view text) {
  const json decoder = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (decoder.is_discarded()) return absl::InvalidArgumentError("the decoder is not JSON");
  if (decoder.is_null()) return absl::UnimplementedError("a tokenizer without a decoder is not supported");
  DecoderRulesParser parser;
  const auto parts = decoder.is_object() ? decoder.find("decoders") : decoder.end();
  if (parts == decoder.end()) {
    RETURN_IF_ERROR(parser.Add(decoder));
  } else {
    for (const json& part : *parts) RETURN_IF_ERROR(parser.Add(part));
  }
  return parser.Take();
}

std::string DecoderRules::TokenBytes(std::string_view spelling, bool is_first) const {
  if (is_byte_level_) return ByteLevelBytes(spelling).value_or(std::string(spelling));
  std::string text(spelling);
  for (const Replacement& r : replacements_) {
    const bool drop = r.drop_in_first_token && is_first;
    absl::StrReplaceAll({{r.pattern, drop ? std::string() : r.content}}, &text);
  }
  if (has_byte_fallback_) {
    if (const auto byte = FallbackByte(text)) return std::string(1, *byte);
  }
  return text;
}

}  // namespace trireme::server
