// Which tokens top_k and top_p keep, judged from the beginning of the ranking of a row's tokens. Order and
// numbers are those of Transformers: temperature, then top_k (ties of the k-th are kept), then top_p over
// what top_k left.
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

// How many tokens of the ranking's beginning are kept; at least 1. Nothing if the ranking ends before that is
// certain: then a longer one must be asked for. `scaled` is over the whole row's logits / temperature, and
// only looked at if top_k is 0. REQUIRES: temperature > 0, the ranking is not empty, logits are not NaN.
std::optional<std::size_t> NumKept(const Ranking& ranking, const SamplingSettings& settings, const LogSumExp& scaled);

}  // namespace trireme::worker
