#include "worker/token_filter.h"

#include <cmath>

#include "base/check.h"

namespace trireme::worker {
namespace {

// As Transformers' TemperatureLogitsWarper: rounded to float32, so ties are judged after it.
float Scaled(const TokenScore& token, const SamplingSettings& settings) { return token.score / settings.temperature; }

// The tokens whose scaled logit is no less than that of the k-th.
std::optional<std::size_t> NumKeptByTopK(const Ranking& ranking, const SamplingSettings& settings) {
  const std::span<const TokenScore> tokens = ranking.tokens;
  if (settings.top_k == 0 || settings.top_k >= tokens.size()) {
    if (ranking.is_complete) return tokens.size();
    return std::nullopt;
  }
  const float kth = Scaled(tokens[settings.top_k - 1], settings);
  std::size_t kept = settings.top_k;
  while (kept < tokens.size() && Scaled(tokens[kept], settings) == kth) ++kept;
  if (kept == tokens.size() && !ranking.is_complete) return std::nullopt;
  return kept;
}

// log Σ exp of the scaled logits of the first `count` tokens.
double LogSumOfFirst(const Ranking& ranking, std::size_t count, const SamplingSettings& settings) {
  const double max = Scaled(ranking.tokens[0], settings);
  double sum = 0;
  for (const TokenScore& token : ranking.tokens.first(count)) sum += std::exp(Scaled(token, settings) - max);
  return max + std::log(sum);
}

// Transformers drops, from the unlikeliest on, what together has at most 1 − top_p: so a token stays if all
// that are likelier have less than top_p.
std::optional<std::size_t> NumKeptByTopP(const Ranking& ranking, std::size_t count, double log_sum,
                                         const SamplingSettings& settings) {
  double likelier = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // Written so that a NaN (of infinite scaled logits) ends it too.
    if (i > 0 && !(likelier < settings.top_p)) return i;
    likelier += std::exp(Scaled(ranking.tokens[i], settings) - log_sum);
  }
  if (likelier < settings.top_p && !ranking.is_complete && settings.top_k == 0) return std::nullopt;
  return count;
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
  if (settings.top_k == 0) {
    if (settings.top_p == 1) return NumKeptByTopK(ranking, settings);
    return NumKeptByTopP(ranking, ranking.tokens.size(), scaled.Value(), settings);
  }
  const std::optional<std::size_t> count = NumKeptByTopK(ranking, settings);
  if (!count || settings.top_p == 1) return count;
  return NumKeptByTopP(ranking, *count, LogSumOfFirst(ranking, *count, settings), settings);
}

}  // namespace trireme::worker
