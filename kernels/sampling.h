// kernels/sampling.h. What a rank says of one row of logits over its part of the vocabulary. Ranks exchange
// these small answers and join them, so that all derive the same token (DESIGN, "Sampling").
//
// All are pure functions of their arguments, with one order of summation each, called by any thread; a step
// calls them for its rows in parallel. An empty shard is legal and gives the neutral answer of each. Logits
// may be −∞ (masked). A NaN never wins; it makes LocalLogSumExp NaN, by which the caller can tell.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

namespace trireme::kernels::cpu {

// A shard of one row: logits of the ids [begin, begin + logits.size()).
struct LogitShard {
  std::span<const float> logits;
  std::int32_t begin = 0;
};

// A token and what it is judged by (its logit, or its Gumbel score). The default is the neutral element of Better.
struct TokenScore {
  float score = -std::numeric_limits<float>::infinity();
  std::int32_t id = std::numeric_limits<std::int32_t>::max();
  friend bool operator==(const TokenScore&, const TokenScore&) = default;
};

// Whether a precedes b: greater score, of equal ones the lower id.
constexpr bool Precedes(const TokenScore& a, const TokenScore& b) {
  return a.score > b.score || (a.score == b.score && a.id < b.id);
}
constexpr TokenScore Better(const TokenScore& a, const TokenScore& b) { return Precedes(b, a) ? b : a; }

// Whether no logit is NaN or +∞, which only numbers that have overflowed can be.
bool AreNumbers(std::span<const float> logits);

// What a sequence's settings and history do to the logit of one token before one is chosen.
struct LogitEdit {
  std::int32_t id = 0;
  float bias = 0;
  bool is_repeated = false;        // the token is in prompt or output
  std::int32_t num_generated = 0;  // how often it is in the output
  bool is_masked = false;          // it must not be chosen
  friend bool operator==(const LogitEdit&, const LogitEdit&) = default;
};

struct LogitPenalties {
  float repetition = 1;  // > 0
  float frequency = 0;
  float presence = 0;
};

// Edits the logits of a row's shard, in this order, every result rounded to float32:
//     v += bias                                                 Transformers' SequenceBiasLogitsProcessor
//     v = v < 0 ? v · repetition : v / repetition,              RepetitionPenaltyLogitsProcessor
//         if it is repeated
//     v −= frequency · num_generated;  v −= presence,           vLLM's apply_penalties
//         if num_generated > 0
//     v = −∞, if it is masked                                   NoBadWords-, MinNewTokensLengthLogitsProcessor
// REQUIRES: each id lies in [begin, begin + logits.size()) and is edited once.
void ApplyEdits(std::span<const LogitEdit> edits, const LogitPenalties& penalties, std::int32_t begin,
                std::span<float> logits);

// The greedy choice: the token of the greatest logit.
TokenScore LocalBest(const LogitShard& shard);

// log Σ exp(v) = max + log(sum), where sum = Σ exp(v − max). The default is that of no value at all.
struct LogSumExp {
  float max = -std::numeric_limits<float>::infinity();
  double sum = 0;

  double Value() const;
  // That of both sets together. Ranks must be joined in rank order for the same bits everywhere.
  static LogSumExp Join(const LogSumExp& a, const LogSumExp& b);
};

// Of the values logit / temperature (rounded to float32 each). REQUIRES: temperature > 0.
LogSumExp LocalLogSumExp(const LogitShard& shard, float temperature);

// Writes the min(out.size(), logits.size()) first tokens by Precedes, in that order, and returns how many.
std::int64_t TopCandidates(const LogitShard& shard, std::span<TokenScore> out);

// Which random numbers a draw uses.
struct GumbelDraw {
  std::uint64_t seed = 0;
  std::uint32_t position = 0;  // absolute position of the token that is drawn
  std::uint32_t sample = 0;    // which of a request's parallel samples
};

// logit / temperature + gumbel(id), where gumbel = −log(−log u), u = ((x >> 8) + 0.5) · 2⁻²⁴ and x is word id
// % 4 of Philox4x32-10 with key = seed (low word, high word) and counter {id / 4, position, sample, 0}. The
// token of the greatest score is distributed as softmax(logits / temperature). Computed in double, then
// rounded to float32. REQUIRES: temperature > 0, id >= 0.
float GumbelScore(std::int32_t id, float logit, float temperature, const GumbelDraw& draw);

// The token of the greatest GumbelScore, equal in bits to calling it for each. REQUIRES: temperature > 0,
// begin >= 0.
TokenScore GumbelBest(const LogitShard& shard, float temperature, const GumbelDraw& draw);

}  // namespace trireme::kernels::cpu
