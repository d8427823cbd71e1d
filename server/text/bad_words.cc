#include "server/text/bad_words.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace trireme::server {
namespace {

bool EndsWith(const std::vector<std::uint32_t>& tokens, const std::vector<std::uint32_t>& end) {
  return tokens.size() >= end.size() && std::equal(end.rbegin(), end.rend(), tokens.rbegin());
}

}  // namespace

absl::StatusOr<std::vector<std::vector<std::uint32_t>>> BadWordTokens(const Tokenizer& tokenizer,
                                                                      std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
  ASSIGN_OR_RETURN(std::vector<std::uint32_t> bare, tokenizer.EncodeIds(word, /*add_special_tokens=*/false));
  if (word.empty() || bare.empty()) return absl::InvalidArgumentError("has no tokens");
  ASSIGN_OR_RETURN(std::vector<std::uint32_t> after_space,
                   tokenizer.EncodeIds(" " + std::string(word), /*add_special_tokens=*/false));
  std::vector<std::vector<std::uint32_t>> result;
  if (!EndsWith(after_space, bare)) result.push_back(std::move(after_space));
  result.push_back(std::move(bare));
  return result;
}

}  // namespace trireme::server
