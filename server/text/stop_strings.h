// Strings that end a text, found while the text still comes in pieces.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::server {

// The strings as one automaton (Aho and Corasick): a byte of text is looked at once, however many strings there are, and
// nothing is searched again. 20 bytes of memory for each byte of the strings.
//
// Immutable; any number of threads may use one at once.
class StopStrings {
 public:
  // REQUIRES: no string is empty.
  explicit StopStrings(std::vector<std::string> strings);

  // What of the strings the end of a text is. 0 before its first byte.
  using State = std::uint32_t;

  // The state after one more byte.
  State Next(State state, std::uint8_t byte) const;

  // The length of the longest end of the text that some string begins with.
  std::size_t num_matched_bytes(State state) const { return nodes_[state].depth; }

  // The longest string that the text ends with; null if there is none. Lives as long as this object.
  const std::string* Match(State state) const;

 private:
  struct Node {
    State first_child = 0;  // 0 is none: the root is nobody's child
    State next_sibling = 0;
    State fallback = 0;       // of the next shorter end of the text that some string begins with
    std::uint32_t depth = 0;  // bytes from the root
    std::uint16_t match = 0;  // 1 + index of the longest string that ends here, or 0
    std::uint8_t byte = 0;    // by which its parent leads here
  };

  void Insert(std::size_t index);
  State Child(State state, std::uint8_t byte) const;
  State AddChild(State parent, std::uint8_t byte);
  void LinkFallbacks();

  const std::vector<std::string> strings_;
  std::vector<Node> nodes_;
};

// Lets a text through up to the first stop string. That is the one which is complete first, and of several that end at
// the same byte the longest; so where the text ends depends on the text alone, not on the pieces in which it comes.
// (vLLM takes, of those that a token completes, the first of its list: the same, unless one token completes several.)
//
// The end of the text that some string begins with is held back, and no more than that. Since text and strings are
// UTF-8, nothing is cut within a code point.
//
// One thread at a time.
class StopFilter {
 public:
  // `strings` may be null: then everything goes through. `includes_match`: a stop string is part of the text.
  StopFilter(std::shared_ptr<const StopStrings> strings, bool includes_match);

  // Returns what may be given out now that `text` has come. `can_match`: whether a string that is completed within
  // `text` counts; if not, it is text like any other. REQUIRES: match() is null.
  std::string Push(std::string_view text, bool can_match);

  // No text follows: returns what was held back. Empty after a match.
  std::string Finish();

  // The string that ended the text; null as long as there was none.
  const std::string* match() const { return match_; }

 private:
  std::string TakeUpToMatch();

  const std::shared_ptr<const StopStrings> strings_;
  const bool includes_match_;
  StopStrings::State state_ = 0;
  std::string held_back_;
  const std::string* match_ = nullptr;
};

}  // namespace trireme::server
