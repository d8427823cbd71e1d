// Which tokens top_k, top_p, min_p and typical_p keep. Order and numbers are those of Transformers (its
// generation/logits_process.py, release 5.24): temperature; top_k, where ties of the k-th are kept; top_p over what
// top_k left; min_p; typical_p over what these left. Logits divided by the temperature are rounded to float32, as
// Transformers does, so that ties are judged after it; sums are in double.
//
// The first three keep the beginning of a row's ranking, so that often a few candidates of each rank settle them.
// typical_p judges every token that is left: where it is used alone, a row's logits are gathered.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/logit_answers.h"
#include "worker/sampling_settings.h"

namespace trireme::worker {

// The first tokens of a row of logits, in the order of kernels' Precedes: by logit, of equal ones the lower id.
struct Ranking {
  std::span<const TokenScore> tokens;
  bool is_complete = false;  // these are all tokens of the vocabulary
};

// What one rank lists of its part of the vocabulary: its first tokens, in order.
struct RankedPart {
  std::span<const TokenScore> tokens;
  bool is_complete = false;  // these are all tokens of the part
};

// Merges the parts into `out` as far as the order of all tokens is certain, which is until a part that is not
// complete ends. Nothing is allocated if `out` has capacity for all parts. At most 256 parts.
Ranking Merge(std::span<const RankedPart> parts, std::vector<TokenScore>& out);

// How many tokens of the ranking's beginning top_k, top_p and min_p keep; at least 1. Nothing if the ranking ends
// before that is certain: then a longer one must be asked for. `scaled` is over the whole row's logits / temperature,
// and only looked at if top_k is 0 and top_p is not 1. REQUIRES: temperature > 0, the ranking is not empty, its first
// logit is finite, logits are not NaN.
std::optional<std::size_t> NumKept(const Ranking& ranking, const SamplingSettings& settings, const LogSumExp& scaled);

// typical_p: locally typical sampling (Meister et al., 2022). Of the tokens' distribution with entropy H, keeps those
// whose surprise −log p is closest to H, until they have typical_p together, and ties of the last of these.
class TypicalFilter {
 public:
  // Memory for that many tokens; nothing is allocated after construction.
  explicit TypicalFilter(std::size_t max_tokens);

  // `tokens` are what the filters before have left, likeliest first; some of them are returned, in the same order. All
  // of them if typical_p is 1. At least one. Valid until the next call. REQUIRES: as NumKept.
  std::span<const TokenScore> Keep(std::span<const TokenScore> tokens, const SamplingSettings& settings);

 private:
  struct Typicality {
    double shift = 0;  // |surprise − entropy|
    double probability = 0;
    std::size_t index = 0;  // in `tokens`
  };

  // Fills typicalities_, one for each token, in the order of their shifts.
  void RankByShift(std::span<const TokenScore> tokens, const SamplingSettings& settings);
  double LargestShiftKept(double mass) const;

  std::vector<Typicality> typicalities_;
  std::vector<TokenScore> kept_;
};

}  // namespace trireme::worker
