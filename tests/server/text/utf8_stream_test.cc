#include "server/text/utf8_stream.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace trireme::server {
namespace {

// The well-formed sequences of Unicode's table 3-7, as ranges of bytes.
struct Range {
  int min, max;
};
const std::vector<std::vector<Range>> kWellFormed = {
    {{0x00, 0x7F}},
    {{0xC2, 0xDF}, {0x80, 0xBF}},
    {{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
    {{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
    {{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
    {{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
    {{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
    {{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
    {{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}},
};

std::size_t MatchingPrefix(const std::vector<Range>& sequence, std::string_view bytes) {
  std::size_t length = 0;
  while (length < sequence.size() && length < bytes.size()) {
    const int byte = static_cast<unsigned char>(bytes[length]);
    if (byte < sequence[length].min || byte > sequence[length].max) break;
    ++length;
  }
  return length;
}

// The slow, obvious version: at each place the longest start of a well-formed sequence, complete or replaced.
std::string ReplaceByTable(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    std::size_t longest = 0;
    bool is_complete = false;
    for (const auto& sequence : kWellFormed) {
      const std::size_t length = MatchingPrefix(sequence, bytes);
      if (length > longest) {
        longest = length;
        is_complete = length == sequence.size();
      }
    }
    out += is_complete ? bytes.substr(0, longest) : std::string_view("\uFFFD");
    bytes.remove_prefix(std::max<std::size_t>(longest, 1));
  }
  return out;
}

std::string AtOnce(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.Push(bytes);
  return text + stream.Finish();
}

std::string ByteByByte(std::string_view bytes) {
  Utf8Stream stream;
  std::string text;
  for (const char& byte : bytes) {
    const std::string delta = stream.Push(std::string_view(&byte, 1));
    EXPECT_EQ(delta, ReplaceByTable(delta)) << "a piece is not valid UTF-8";
    text += delta;
  }
  return text + stream.Finish();
}

TEST(Utf8StreamTest, GivesNothingForNothing) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push(""), "");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8StreamTest, HoldsBackAnIncompleteCodePoint) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.Push("\x98"), "");
  EXPECT_EQ(stream.Push("\x80z"), "\xF0\x9F\x98\x80z");
}

TEST(Utf8StreamTest, ReplacesWhatIsLeftAtTheEndAndIsThenAsNew) {
  Utf8Stream stream;
  stream.Push("\xE2\x82");
  EXPECT_EQ(stream.Finish(), "\uFFFD");
  EXPECT_EQ(stream.Finish(), "");
  EXPECT_EQ(stream.Push("\xAC"), "\uFFFD") << "a continuation byte of a finished text";
}

TEST(Utf8StreamTest, ReplacesAsTheTableSaysForAllSequencesOfFourCriticalBytes) {
  constexpr std::array<int, 22> kCritical = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1,
                                             0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5, 0xFF};
  for (const int a : kCritical) {
    for (const int b : kCritical) {
      for (const int c : kCritical) {
        for (const int d : kCritical) {
          std::string bytes;
          for (const int byte : {a, b, c, d}) bytes.push_back(static_cast<char>(byte));
          ASSERT_EQ(AtOnce(bytes), ReplaceByTable(bytes)) << a << " " << b << " " << c << " " << d;
        }
      }
    }
  }
}

TEST(Utf8StreamTest, DoesNotDependOnHowRandomBytesAreCut) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 3 == 0 ? random() % 128 : 128 + random() % 128);
    const std::string expected = ReplaceByTable(bytes);
    ASSERT_EQ(AtOnce(bytes), expected);
    ASSERT_EQ(ByteByByte(bytes), expected);
  }
}

TEST(IsUtf8Test, TellsValidFromInvalid) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("naïve 😀 \uFFFD"));
  EXPECT_FALSE(IsUtf8("\xC3"));
  EXPECT_FALSE(IsUtf8("\xED\xA0\x80"));  // a surrogate
  EXPECT_FALSE(IsUtf8("\xC0\xAF"));      // overlong
}

}  // namespace
}  // namespace trireme::server
