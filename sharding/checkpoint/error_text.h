// Text from files, fit for messages.
#pragma once
#include <string>
#include <string_view>

namespace trireme::sharding {

// In quotes, escaped, and cut after 100 bytes: files may name a tensor with a megabyte of control characters.
std::string Quoted(std::string_view text);

// True if `text` is valid UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF).
bool IsUtf8(std::string_view text);

}  // namespace trireme::sharding
