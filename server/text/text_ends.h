// What stands at the ends of a text that a model is given.
#pragma once
#include <optional>
#include <string>

namespace trireme::server {

// Spellings of the tokens that add_special_tokens adds, such as "<s>" before the text and nothing after it.
struct TextEnds {
  std::optional<std::string> begin = std::nullopt;
  std::optional<std::string> end = std::nullopt;
};

}  // namespace trireme::server
