#include "server/text/stop_strings.h"

#include <limits>
#include <utility>

#include "base/check.h"

namespace trireme::server {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)), nodes_(1) {
  CHECK_LT(strings_.size(), std::numeric_limits<std::uint16_t>::max());
  for (std::size_t i = 0; i < strings_.size(); ++i) Insert(i);
  LinkFallbacks();
}

void StopStrings::Insert(std::size_t index) {
  CHECK(!strings_[index].empty()) << " stop string " << index << " is empty";
  State state = 0;
  for (const char c : strings_[index]) {
    const auto byte = static_cast<std::uint8_t>(c);
    const State child = Child(state, byte);
    state = child != 0 ? child : AddChild(state, byte);
  }
  if (nodes_[state].match == 0) nodes_[state].match = static_cast<std::uint16_t>(index + 1);
}

StopStrings::State StopStrings::Child(State state, std::uint8_t byte) const {
  State child = nodes_[state].first_child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

StopStrings::State StopStrings::AddChild(State parent, std::uint8_t byte) {
  const auto child = static_cast<State>(nodes_.size());
  nodes_.push_back({.next_sibling = nodes_[parent].first_child, .depth = nodes_[parent].depth + 1, .byte = byte});
  nodes_[parent].first_child = child;
  return child;
}

// Breadth first: a fallback is nearer to the root than its node, so it is complete when the node needs it.
void StopStrings::LinkFallbacks() {
  std::vector<State> order = {0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const State parent = order[i];
    for (State child = nodes_[parent].first_child; child != 0; child = nodes_[child].next_sibling) {
      Node& node = nodes_[child];
      if (parent != 0) node.fallback = Next(nodes_[parent].fallback, node.byte);
      if (node.match == 0) node.match = nodes_[node.fallback].match;
      order.push_back(child);
    }
  }
}

StopStrings::State StopStrings::Next(State state, std::uint8_t byte) const {
  while (true) {
    const State child = Child(state, byte);
    if (child != 0 || state == 0) return child;
    state = nodes_[state].fallback;
  }
}

const std::string* StopStrings::Match(State state) const {
  const std::uint16_t match = nodes_[state].match;
  return match == 0 ? nullptr : &strings_[match - 1];
}

StopFilter::StopFilter(std::shared_ptr<const StopStrings> strings, bool includes_match)
    : strings_(std::move(strings)), includes_match_(includes_match) {}

std::string StopFilter::Push(std::string_view text, bool can_match) {
  CHECK(match_ == nullptr);
  if (strings_ == nullptr) return std::string(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    state_ = strings_->Next(state_, static_cast<std::uint8_t>(text[i]));
    if (can_match) match_ = strings_->Match(state_);
    if (match_ == nullptr) continue;
    held_back_.append(text.substr(0, i + 1));
    return TakeUpToMatch();
  }
  held_back_.append(text);
  std::string passed = held_back_.substr(0, held_back_.size() - strings_->num_matched_bytes(state_));
  held_back_.erase(0, passed.size());
  return passed;
}

std::string StopFilter::TakeUpToMatch() {
  std::string text = std::exchange(held_back_, {});
  if (!includes_match_) text.resize(text.size() - match_->size());
  return text;
}

std::string StopFilter::Finish() { return std::exchange(held_back_, {}); }

}  // namespace trireme::server
