#include "worker/token_filter.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace trireme::worker {
namespace {

// As Transformers' TemperatureLogitsWarper: rounded to float32, so ties are judged after it.
float Scaled(const TokenScore& token, const SamplingSettings& settings) { return token.score / settings.temperature; }

// The beginning of a ranking that a filter keeps.
struct Prefix {
  std::size_t count = 0;
  bool is_certain = false;  // else at least these, and perhaps some that the ranking does not list
};

// The tokens whose scaled logit is no less than that of the k-th.
Prefix KeepByTopK(const Ranking& ranking, const SamplingSettings& settings) {
  const std::span<const TokenScore> tokens = ranking.tokens;
  if (settings.top_k == 0 || settings.top_k >= tokens.size()) return {tokens.size(), ranking.is_complete};
  const float kth = Scaled(tokens[settings.top_k - 1], settings);
  std::size_t kept = settings.top_k;
  while (kept < tokens.size() && Scaled(tokens[kept], settings) == kth) ++kept;
  return {kept, kept < tokens.size() || ranking.is_complete};
}

// log Σ exp of the scaled logits of the tokens, of which the first is the greatest.
double LogSum(std::span<const TokenScore> tokens, const SamplingSettings& settings) {
  const double max = Scaled(tokens[0], settings);
  double sum = 0;
  for (const TokenScore& token : tokens) sum += std::exp(Scaled(token, settings) - max);
  return max + std::log(sum);
}

// Transformers drops, from the unlikeliest on, what together has at most 1 − top_p: so a token stays if all
// that are likelier have less than top_p. `log_sum` is over all that top_k has kept.
Prefix KeepByTopP(const Ranking& ranking, const Prefix& before, double log_sum, const SamplingSettings& settings) {
  double likelier = 0;
  for (std::size_t i = 0; i < before.count; ++i) {
    // Written so that a NaN (of infinite scaled logits) ends it too.
    if (i > 0 && !(likelier < settings.top_p)) return {i, true};
    likelier += std::exp(Scaled(ranking.tokens[i], settings) - log_sum);
  }
  return {before.count, before.is_certain || !(likelier < settings.top_p)};
}

// The tokens that have at least min_p of the likeliest one's probability.
Prefix KeepByMinP(const Ranking& ranking, const Prefix& before, const SamplingSettings& settings) {
  const double max = Scaled(ranking.tokens[0], settings);
  for (std::size_t i = 1; i < before.count; ++i) {
    if (std::exp(Scaled(ranking.tokens[i], settings) - max) < settings.min_p) return {i, true};
  }
  return before;
}

}  // namespace

Ranking Merge(std::span<const RankedPart> parts, std::vector<TokenScore>& out) {
  constexpr std::size_t kMaxParts = 256;
  CHECK_LE(parts.size(), kMaxParts);
  std::size_t next[kMaxParts] = {};
  out.clear();
  for (;;) {
    std::size_t best = parts.size();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (next[p] == parts[p].tokens.size()) {
        if (!parts[p].is_complete) return {out, false};
        continue;
      }
      const TokenScore& head = parts[p].tokens[next[p]];
      if (best == parts.size() || kernels::cpu::Precedes(head, parts[best].tokens[next[best]])) best = p;
    }
    if (best == parts.size()) return {out, true};
    out.push_back(parts[best].tokens[next[best]++]);
  }
}

std::optional<std::size_t> NumKept(const Ranking& ranking, const SamplingSettings& settings, const LogSumExp& scaled) {
  CHECK_GT(settings.temperature, 0);
  CHECK(!ranking.tokens.empty());
  Prefix kept = KeepByTopK(ranking, settings);
  if (settings.top_p < 1) {
    if (settings.top_k > 0 && !kept.is_certain) return std::nullopt;  // of which sum would top_p be a part?
    const double log_sum = settings.top_k == 0 ? scaled.Value() : LogSum(ranking.tokens.first(kept.count), settings);
    kept = KeepByTopP(ranking, kept, log_sum, settings);
  }
  if (settings.min_p > 0) kept = KeepByMinP(ranking, kept, settings);
  if (!kept.is_certain) return std::nullopt;
  return kept.count;
}

TypicalFilter::TypicalFilter(std::size_t max_tokens) {
  typicalities_.reserve(max_tokens);
  kept_.reserve(max_tokens);
}

std::span<const TokenScore> TypicalFilter::Keep(std::span<const TokenScore> tokens, const SamplingSettings& settings) {
  if (settings.typical_p == 1) return tokens;
  // Those of no probability, which masked tokens are, have an infinite surprise.
  while (std::isinf(tokens.back().score)) tokens = tokens.first(tokens.size() - 1);
  RankByShift(tokens, settings);
  const double largest = LargestShiftKept(settings.typical_p);
  std::erase_if(typicalities_, [&](const Typicality& t) { return t.shift > largest; });
  std::sort(typicalities_.begin(), typicalities_.end(),
            [](const Typicality& a, const Typicality& b) { return a.index < b.index; });
  kept_.clear();
  for (const Typicality& t : typicalities_) kept_.push_back(tokens[t.index]);
  return kept_;
}

void TypicalFilter::RankByShift(std::span<const TokenScore> tokens, const SamplingSettings& settings) {
  const double log_sum = LogSum(tokens, settings);
  double entropy = 0;
  typicalities_.clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const double surprise = log_sum - Scaled(tokens[i], settings);
    const double probability = std::exp(-surprise);
    if (probability > 0) entropy += probability * surprise;
    typicalities_.push_back({.shift = surprise, .probability = probability, .index = i});
  }
  for (Typicality& t : typicalities_) t.shift = std::abs(t.shift - entropy);
  std::sort(typicalities_.begin(), typicalities_.end(), [](const Typicality& a, const Typicality& b) {
    return a.shift < b.shift || (a.shift == b.shift && a.index < b.index);
  });
}

double TypicalFilter::LargestShiftKept(double mass) const {
  double sum = 0;
  for (const Typicality& t : typicalities_) {
    sum += t.probability;
    if (!(sum < mass)) return t.shift;
  }
  return typicalities_.back().shift;
}

}  // namespace trireme::worker
