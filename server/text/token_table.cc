#include "server/text/token_table.h"

#include <utility>

#include "base/check.h"

namespace trireme::server {

TokenTable::TokenTable(std::string spellings, std::vector<std::uint32_t> ends, std::vector<TokenKind> kinds,
                       DecoderRules rules)
    : spellings_(std::move(spellings)), ends_(std::move(ends)), kinds_(std::move(kinds)), rules_(std::move(rules)) {
  CHECK_EQ(ends_.size(), kinds_.size());
  CHECK_EQ(ends_.empty() ? 0 : ends_.back(), spellings_.size());
}

std::string_view TokenTable::Spelling(std::uint32_t id) const {
  if (kind(id) == TokenKind::kAbsent) return {};
  const std::uint32_t begin = id == 0 ? 0 : ends_[id - 1];
  return std::string_view(spellings_).substr(begin, ends_[id] - begin);
}

}  // namespace trireme::server
