#include "sharding/checkpoint/error_text.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace trireme::sharding {
namespace {

constexpr std::size_t kMaxQuotedBytes = 100;

// Length of the sequence that `lead` begins, and the range of its second byte; 0 if no sequence begins with it.
struct Utf8Lead {
  int length = 0;
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xbf;
};

Utf8Lead ClassifyLead(std::uint8_t lead) {
  if (lead < 0x80) return {.length = 1};
  if (lead < 0xc2) return {.length = 0};
  if (lead < 0xe0) return {.length = 2};
  if (lead == 0xe0) return {.length = 3, .second_min = 0xa0};
  if (lead == 0xed) return {.length = 3, .second_max = 0x9f};
  if (lead < 0xf0) return {.length = 3};
  if (lead == 0xf0) return {.length = 4, .second_min = 0x90};
  if (lead < 0xf4) return {.length = 4};
  if (lead == 0xf4) return {.length = 4, .second_max = 0x8f};
  return {.length = 0};
}

}  // namespace

std::string Quoted(std::string_view text) {
  const std::string shown(text.substr(0, kMaxQuotedBytes));
  return absl::StrCat("\"", absl::CHexEscape(shown), text.size() > kMaxQuotedBytes ? "…\"" : "\"");
}

bool IsUtf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const Utf8Lead lead = ClassifyLead(static_cast<std::uint8_t>(text[i]));
    if (lead.length == 0 || text.size() - i < static_cast<std::size_t>(lead.length)) return false;
    for (int k = 1; k < lead.length; ++k) {
      const auto byte = static_cast<std::uint8_t>(text[i + static_cast<std::size_t>(k)]);
      const std::uint8_t min = k == 1 ? lead.second_min : 0x80;
      const std::uint8_t max = k == 1 ? lead.second_max : 0xbf;
      if (byte < min || byte > max) return false;
    }
    i += static_cast<std::size_t>(lead.length);
  }
  return true;
}

}  // namespace trireme::sharding
