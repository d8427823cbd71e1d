#include "server/text/utf8_stream.h"

#include <utility>

namespace trireme::server {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What a lead byte says about the bytes that follow it.
struct Lead {
  int num_following = 0;  // 0: not a lead byte
  std::uint8_t next_min = 0x80;
  std::uint8_t next_max = 0xBF;
};

// Second bytes are narrowed after four leads: overlong forms, surrogates and values above U+10FFFF end there.
Lead LeadOf(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {.num_following = 1};
  if (byte == 0xE0) return {.num_following = 2, .next_min = 0xA0};
  if (byte == 0xED) return {.num_following = 2, .next_max = 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {.num_following = 2};
  if (byte == 0xF0) return {.num_following = 3, .next_min = 0x90};
  if (byte == 0xF4) return {.num_following = 3, .next_max = 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {.num_following = 3};
  return {};
}

}  // namespace

void Utf8Stream::StartCodePoint(std::uint8_t byte, std::string& out) {
  if (byte < 0x80) {
    out.push_back(static_cast<char>(byte));
    return;
  }
  const Lead lead = LeadOf(byte);
  if (lead.num_following == 0) {
    out += kReplacement;
    return;
  }
  pending_.push_back(static_cast<char>(byte));
  missing_ = lead.num_following;
  next_min_ = lead.next_min;
  next_max_ = lead.next_max;
}

void Utf8Stream::PushByte(std::uint8_t byte, std::string& out) {
  if (missing_ == 0) return StartCodePoint(byte, out);
  if (byte < next_min_ || byte > next_max_) {
    out += Finish();
    return StartCodePoint(byte, out);
  }
  next_min_ = 0x80;
  next_max_ = 0xBF;
  pending_.push_back(static_cast<char>(byte));
  if (--missing_ == 0) out += std::exchange(pending_, {});
}

std::string Utf8Stream::Push(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char byte : bytes) PushByte(static_cast<std::uint8_t>(byte), out);
  return out;
}

std::string Utf8Stream::Finish() {
  const bool was_incomplete = missing_ > 0;
  pending_.clear();
  missing_ = 0;
  return std::string(was_incomplete ? kReplacement : std::string_view());
}

bool IsUtf8(std::string_view text) {
  Utf8Stream stream;
  return stream.Push(text) == text && stream.Finish().empty();
}

}  // namespace trireme::server
