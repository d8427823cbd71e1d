#include "server/text/stop_strings.h"

#include <algorithm>
#include <optional>
#include <random>

#include "gtest/gtest.h"
#include "server/text/utf8_stream.h"

namespace trireme::server {
namespace {

using Strings = std::vector<std::string>;

// A text that comes in these pieces; those before `first_counting` cannot end it.
struct Input {
  Strings pieces;
  std::size_t first_counting = 0;
};

struct Outcome {
  std::string text;
  std::optional<std::string> match;
  bool operator==(const Outcome&) const = default;
};

// The definition, by looking at the whole text at each of its bytes.
Outcome Naive(const Strings& stops, bool includes_match, const Input& input) {
  std::string text;
  std::size_t begin_of_counting = 0;
  for (std::size_t i = 0; i < input.pieces.size(); ++i) {
    if (i == input.first_counting) begin_of_counting = text.size();
    text += input.pieces[i];
  }
  if (input.first_counting >= input.pieces.size()) return {text, std::nullopt};
  for (std::size_t end = begin_of_counting + 1; end <= text.size(); ++end) {
    const std::string* longest = nullptr;
    for (const std::string& stop : stops) {
      if (!text.substr(0, end).ends_with(stop)) continue;
      if (longest == nullptr || stop.size() > longest->size()) longest = &stop;
    }
    if (longest != nullptr) return {text.substr(0, end - (includes_match ? 0 : longest->size())), *longest};
  }
  return {text, std::nullopt};
}

// How long an end of `text` begins one of `stops`.
std::size_t LongestBeginning(const Strings& stops, const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t size = 1; size <= std::min(stop.size(), text.size()); ++size) {
      if (text.ends_with(stop.substr(0, size))) longest = std::max(longest, size);
    }
  }
  return longest;
}

// What the filter says, having checked that each piece lets through as much as it may and no code point is cut.
Outcome Filtered(const Strings& stops, bool includes_match, const Input& input) {
  StopFilter filter(std::make_shared<const StopStrings>(stops), includes_match);
  std::string pushed, passed;
  for (std::size_t i = 0; i < input.pieces.size() && filter.match() == nullptr; ++i) {
    const std::string piece = filter.Push(input.pieces[i], i >= input.first_counting);
    EXPECT_TRUE(IsUtf8(piece));
    pushed += input.pieces[i];
    passed += piece;
    if (filter.match() == nullptr) {
      EXPECT_EQ(passed, pushed.substr(0, pushed.size() - LongestBeginning(stops, pushed)));
    }
  }
  passed += filter.Finish();
  return {passed, filter.match() == nullptr ? std::nullopt : std::optional(*filter.match())};
}

Outcome Cut(const Strings& stops, const Strings& pieces, bool includes_match = false) {
  const Outcome outcome = Filtered(stops, includes_match, {pieces});
  EXPECT_EQ(outcome, Naive(stops, includes_match, {pieces}));
  return outcome;
}

TEST(StopStrings, EndTheTextBeforeThem) {
  EXPECT_EQ(Cut({"stop"}, {"a stop b"}), (Outcome{"a ", "stop"}));
  EXPECT_EQ(Cut({"stop"}, {"a s", "t", "op b"}), (Outcome{"a ", "stop"}));
  EXPECT_EQ(Cut({"stop"}, {"stop"}), (Outcome{"", "stop"}));
  EXPECT_EQ(Cut({"stop"}, {"a sto"}), (Outcome{"a sto", std::nullopt}));
  EXPECT_EQ(Cut({"stop"}, {"a sto", "", "ne"}), (Outcome{"a stone", std::nullopt}));
  EXPECT_EQ(Cut({"stop"}, {}), (Outcome{"", std::nullopt}));
}

TEST(StopStrings, ArePartOfTheTextIfAskedFor) {
  EXPECT_EQ(Cut({"stop"}, {"a st", "op b"}, /*includes_match=*/true), (Outcome{"a stop", "stop"}));
}

TEST(StopStrings, BeginAgainWithinABrokenBeginning) {
  EXPECT_EQ(Cut({"aab"}, {"a", "a", "a", "b"}), (Outcome{"a", "aab"}));
  EXPECT_EQ(Cut({"abab!"}, {"ababab!"}), (Outcome{"ab", "abab!"}));
}

TEST(StopStrings, EndAtTheOneThatIsCompleteFirst) {
  EXPECT_EQ(Cut({"abcd", "bc"}, {"xabcd"}), (Outcome{"xa", "bc"}));
  EXPECT_EQ(Cut({"bc", "abcd"}, {"xab", "cd"}), (Outcome{"xa", "bc"}));
  EXPECT_EQ(Cut({"b", "ab"}, {"xab"}), (Outcome{"x", "ab"})) << "of those that end together, the longest";
  EXPECT_EQ(Cut({"zz", "ab", "ab"}, {"ab"}), (Outcome{"", "ab"}));
}

TEST(StopStrings, KeepCodePointsWhole) {
  EXPECT_EQ(Cut({"é!"}, {"è", "é", "é!"}), (Outcome{"èé", "é!"}));
  EXPECT_EQ(Cut({"😀"}, {"a😁😀"}), (Outcome{"a😁", "😀"}));
}

TEST(StopStrings, CountOnlyIfCompletedWhereTheyMay) {
  const Strings stops = {"abc"};
  EXPECT_EQ(Filtered(stops, false, {{"abc", "d"}, 1}), (Outcome{"abcd", std::nullopt}));
  EXPECT_EQ(Filtered(stops, false, {{"xab", "c"}, 1}), (Outcome{"x", "abc"})) << "it may begin before";
  EXPECT_EQ(Filtered(stops, false, {{"abc", "abc"}, 1}), (Outcome{"abc", "abc"}));
  EXPECT_EQ(Filtered(stops, false, {{"abc", "abc"}, 2}), (Outcome{"abcabc", std::nullopt}));
}

TEST(StopStrings, LetAllThroughWhereThereAreNone) {
  StopFilter filter(nullptr, false);
  EXPECT_EQ(filter.Push("abc", true), "abc");
  EXPECT_EQ(filter.Finish(), "");
  EXPECT_EQ(filter.match(), nullptr);
}

// Few different letters, so that strings overlap and repeat.
std::string RandomText(std::mt19937& random, std::size_t max_letters) {
  static const Strings kLetters = {"a", "b", "é", "è", "😀"};
  std::string text;
  for (std::size_t i = random() % (max_letters + 1); i > 0; --i) text += kLetters[random() % kLetters.size()];
  return text;
}

TEST(StopStrings, AgreeWithTheirDefinitionOnRandomTexts) {
  std::mt19937 random(11);
  int num_matches = 0;
  for (int round = 0; round < 4000; ++round) {
    Strings stops;
    for (std::size_t i = 1 + random() % 64; i > 0; --i) {
      const std::string stop = RandomText(random, 9);
      if (stop.size() > 3 || (!stop.empty() && random() % 20 == 0)) stops.push_back(stop);
    }
    if (stops.empty()) continue;
    Input input;
    for (std::size_t i = random() % 30; i > 0; --i) input.pieces.push_back(RandomText(random, 4));
    input.first_counting = random() % 3 == 0 ? random() % 20 : 0;
    const bool includes_match = random() % 2 == 0;
    const Outcome outcome = Naive(stops, includes_match, input);
    num_matches += outcome.match.has_value();
    ASSERT_EQ(Filtered(stops, includes_match, input), outcome) << "round " << round;
  }
  EXPECT_GT(num_matches, 400);
  EXPECT_LT(num_matches, 3600);
}

// Sixty-four strings of a thousand bytes that all but match all the time; if anything were searched again, this would
// take hours.
TEST(StopStrings, LookAtEachByteOnce) {
  Strings stops;
  for (char c = 0; c < 64; ++c) stops.push_back(std::string(1023, 'a') + static_cast<char>(' ' + c));
  StopFilter filter(std::make_shared<const StopStrings>(stops), false);
  const std::string piece = std::string(1022, 'a') + "é";
  std::size_t num_bytes = 0;
  for (int i = 0; i < 2000; ++i) num_bytes += filter.Push(piece, true).size();
  EXPECT_EQ(num_bytes + filter.Finish().size(), 2000 * piece.size());
  EXPECT_EQ(filter.match(), nullptr);
}

}  // namespace
}  // namespace trireme::server
