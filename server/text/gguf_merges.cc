#include "server/text/gguf_merges.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/text/utf8_stream.h"

namespace trireme::server {
namespace {

using IdOfToken = std::unordered_map<std::string_view, std::uint32_t>;

bool HasText(std::int32_t type) { return type == kGgufNormal || type == kGgufUserDefined; }

// Of the tokens that a merge may have as a part: those that stand for their spelling.
IdOfToken IndexTokens(const GgufVocabulary& vocabulary) {
  IdOfToken id_of;
  id_of.reserve(vocabulary.tokens.size());
  for (std::uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (HasText(vocabulary.token_types[id])) id_of.emplace(vocabulary.tokens[id], id);
  }
  return id_of;
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

struct ScoredMerge {
  float score;
  std::uint32_t left, right;
};

void AppendSplits(std::string_view piece, float score, const IdOfToken& id_of, std::vector<ScoredMerge>& merges) {
  for (std::size_t cut = 1; cut < piece.size(); ++cut) {
    if (IsContinuation(piece[cut])) continue;
    const auto left = id_of.find(piece.substr(0, cut));
    if (left == id_of.end()) continue;
    const auto right = id_of.find(piece.substr(cut));
    if (right != id_of.end()) merges.push_back({.score = score, .left = left->second, .right = right->second});
  }
}

absl::Status WrongMerge(std::size_t index, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.merges[", index, "] ", what));
}

}  // namespace

absl::StatusOr<std::vector<Merge>> ParseMerges(const GgufVocabulary& vocabulary) {
  std::vector<Merge> merges;
  merges.reserve(vocabulary.merges.size());
  for (const std::string& text : vocabulary.merges) {
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || space != text.rfind(' ') || space == 0 || space + 1 == text.size()) {
      return WrongMerge(merges.size(), absl::StrCat("is '", text, "', not two words"));
    }
    if (!IsUtf8(text)) return WrongMerge(merges.size(), "is not UTF-8");
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

std::vector<Merge> MergesFromScores(const GgufVocabulary& vocabulary) {
  CHECK_EQ(vocabulary.tokens.size(), vocabulary.scores.size());
  CHECK_EQ(vocabulary.tokens.size(), vocabulary.token_types.size());
  const IdOfToken id_of = IndexTokens(vocabulary);
  std::vector<ScoredMerge> scored;
  for (std::uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.token_types[id] == kGgufNormal)
      AppendSplits(vocabulary.tokens[id], vocabulary.scores[id], id_of, scored);
  }
  std::sort(scored.begin(), scored.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
    return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
  });
  std::vector<Merge> merges;
  merges.reserve(scored.size());
  for (const ScoredMerge& m : scored) merges.emplace_back(vocabulary.tokens[m.left], vocabulary.tokens[m.right]);
  return merges;
}

}  // namespace trireme::server
