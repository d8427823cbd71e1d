// Bytes that come in pieces → text of whole code points.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::server {

// Holds back the bytes of a code point that is not complete yet (at most three). Bytes that are not UTF-8 become
// U+FFFD, one for each maximal subpart (Unicode, "U+FFFD Substitution of Maximal Subparts"; what WHATWG, Python and
// Rust do), so that the concatenation of all output does not depend on how the input was cut.
//
// One thread at a time.
class Utf8Stream {
 public:
  // Returns the text that `bytes` complete: always valid UTF-8, maybe empty.
  std::string Push(std::string_view bytes);

  // Ends the stream: U+FFFD if a code point was left incomplete. The stream is then as new.
  std::string Finish();

 private:
  void PushByte(std::uint8_t byte, std::string& out);
  void StartCodePoint(std::uint8_t byte, std::string& out);

  std::string pending_;           // the bytes of the code point so far
  int missing_ = 0;               // bytes that it still lacks
  std::uint8_t next_min_ = 0x80;  // what its next byte may be
  std::uint8_t next_max_ = 0xBF;
};

// Whether `text` is valid UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
bool IsUtf8(std::string_view text);

}  // namespace trireme::server
