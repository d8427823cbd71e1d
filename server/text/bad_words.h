// A word that must not be generated → the token sequences that spell it.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/tokenizer.h"

namespace trireme::server {

// The tokens of `word`, whose leading spaces do not count, and those of a space and `word`: the start of a text, and its
// middle. The second is left out where it ends with the first, which then covers it. The same as vLLM's, which also
// leaves it out where both are of different lengths and so lets a word through that a tokenizer cuts in another way
// after a space. Other spellings, such as ones in pieces that the tokenizer would not choose, stay possible.
//
// InvalidArgument: nothing is left of the word (it has spaces only, or the tokenizer makes no token of it).
absl::StatusOr<std::vector<std::vector<std::uint32_t>>> BadWordTokens(const Tokenizer& tokenizer,
                                                                      std::string_view word);

}  // namespace trireme::server
