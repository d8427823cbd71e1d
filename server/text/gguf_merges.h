// The merges of a BPE tokenizer in a GGUF file.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/gguf_tokenizer.h"

namespace trireme::server {

using Merge = std::pair<std::string, std::string>;

// From "left right" texts, in their order. InvalidArgument: not two words.
absl::StatusOr<std::vector<Merge>> ParseMerges(const GgufVocabulary& vocabulary);

// SentencePiece has no merges, only a score for each piece: every split of a normal piece into two tokens is
// a merge, and the piece with the highest score is merged first. Ties go by ids. REQUIRES: as many scores and
// types as tokens.
std::vector<Merge> MergesFromScores(const GgufVocabulary& vocabulary);

}  // namespace trireme::server
