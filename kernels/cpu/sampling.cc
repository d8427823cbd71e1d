#include "kernels/sampling.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "kernels/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sampling.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

// The greatest of v, −∞ if there is none but NaNs.
float MaximumOf(const float* v, std::int64_t n) {
  FloatVector max = hn::Set(kFloatTag, -std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const FloatVector next = LoadVector(v + i);
    max = hn::IfThenElse(hn::Gt(next, max), next, max);
  }
  float best = Maximum(max);
  for (; i < n; ++i) best = v[i] > best ? v[i] : best;
  return best;
}

// Whether all of v are below +∞, which NaNs are not.
bool AreBelowInfinity(const float* v, std::int64_t n) {
  const FloatVector infinity = hn::Set(kFloatTag, std::numeric_limits<float>::infinity());
  const FloatVector one = hn::Set(kFloatTag, 1.0f);
  FloatVector not_below = hn::Zero(kFloatTag);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    not_below = hn::IfThenElse(hn::Lt(LoadVector(v + i), infinity), not_below, one);
  }
  bool are_below = Sum(not_below) == 0;
  for (; i < n; ++i) are_below &= v[i] < std::numeric_limits<float>::infinity();
  return are_below;
}

// Σ exp(v / temperature − max). Short sums in float32, their sum in double.
double SumOfExponentials(const float* v, std::int64_t n, float temperature, float max) {
  constexpr std::int64_t kShortSum = 256;
  const FloatVector divisor = hn::Set(kFloatTag, temperature);
  const FloatVector maxima = hn::Set(kFloatTag, max);
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kShortSum) {
    FloatVector sum = hn::Zero(kFloatTag);
    std::int64_t i = begin;
    const std::int64_t end = std::min(n, begin + kShortSum);
    for (; i + kLanes <= end; i += kLanes) {
      sum = hn::Add(sum, ExpOrNan(hn::Sub(hn::Div(LoadVector(v + i), divisor), maxima)));
    }
    total += Sum(sum);
    for (; i < end; ++i) total += std::exp(static_cast<double>(v[i] / temperature - max));
  }
  return total;
}

// out[i] = −log(−log u) with u = ((words[i] >> 8) + 0.5) / 2²⁴, in double: in float32 u could be 1.
void GumbelOf(const std::uint32_t* words, std::int64_t n, float* out) {
  const hn::CappedTag<double, 8> tag;
  constexpr std::int64_t kWide = static_cast<std::int64_t>(hn::MaxLanes(hn::CappedTag<double, 8>()));
  for (std::int64_t i = 0; i < n; i += kWide) {
    const std::int64_t count = std::min(kWide, n - i);
    alignas(64) double lanes[kWide];
    for (std::int64_t j = 0; j < kWide; ++j) {
      lanes[j] = (static_cast<double>(words[i + (j < count ? j : 0)] >> 8) + 0.5) * 0x1p-24;
    }
    const auto inner = hn::Neg(hn::Log(tag, hn::Load(tag, lanes)));
    hn::Store(hn::Neg(hn::Log(tag, inner)), tag, lanes);
    for (std::int64_t j = 0; j < count; ++j) out[i + j] = static_cast<float>(lanes[j]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu {
namespace {

HWY_EXPORT(AreBelowInfinity);
HWY_EXPORT(MaximumOf);
HWY_EXPORT(SumOfExponentials);
HWY_EXPORT(GumbelOf);

constexpr std::int32_t kIdsPerCounter = 4;

// The random words of ids [begin, begin + count).
void FillWords(std::int64_t begin, std::int64_t count, const GumbelDraw& draw, std::uint32_t* words) {
  const PhiloxKey key = PhiloxKeyOfSeed(draw.seed);
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t id = begin + i;
    const auto four = Philox4x32({static_cast<std::uint32_t>(id / kIdsPerCounter), draw.position, draw.sample, 0}, key);
    for (std::int64_t w = id % kIdsPerCounter; w < kIdsPerCounter && i < count; ++w) {
      words[i++] = four[static_cast<std::size_t>(w)];
    }
  }
}

}  // namespace

bool AreNumbers(std::span<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(AreBelowInfinity)(logits.data(), std::ssize(logits));
}

void ApplyEdits(std::span<const LogitEdit> edits, const LogitPenalties& penalties, std::int32_t begin,
                std::span<float> logits) {
  for (const LogitEdit& edit : edits) {
    CHECK(edit.id >= begin && edit.id - begin < std::ssize(logits)) << edit.id;
    float& v = logits[static_cast<std::size_t>(edit.id - begin)];
    v += edit.bias;
    if (edit.is_repeated) v = v < 0 ? v * penalties.repetition : v / penalties.repetition;
    if (edit.num_generated > 0) {
      const float frequency = penalties.frequency * static_cast<float>(edit.num_generated);
      v -= frequency;
      v -= penalties.presence;
    }
    if (edit.is_masked) v = -std::numeric_limits<float>::infinity();
  }
}

TokenScore LocalBest(const LogitShard& shard) {
  const float max = HWY_DYNAMIC_DISPATCH(MaximumOf)(shard.logits.data(), std::ssize(shard.logits));
  const auto it = std::find(shard.logits.begin(), shard.logits.end(), max);
  if (it == shard.logits.end()) return {};
  return {max, shard.begin + static_cast<std::int32_t>(it - shard.logits.begin())};
}

double LogSumExp::Value() const { return max + std::log(sum); }

LogSumExp LogSumExp::Join(const LogSumExp& a, const LogSumExp& b) {
  if (a.max == b.max) return {a.max, a.sum + b.sum};
  const LogSumExp& high = a.max > b.max ? a : b;
  const LogSumExp& low = a.max > b.max ? b : a;
  return {high.max, high.sum + low.sum * std::exp(static_cast<double>(low.max) - high.max)};
}

LogSumExp LocalLogSumExp(const LogitShard& shard, float temperature) {
  CHECK_GT(temperature, 0);
  const std::int64_t n = std::ssize(shard.logits);
  const float* logits = shard.logits.data();
  const float max = HWY_DYNAMIC_DISPATCH(MaximumOf)(logits, n) / temperature;
  // Where all is −∞ (or NaN), any finite maximum gives the sum 0 (or NaN).
  const float finite_max = std::isinf(max) && max < 0 ? 0.0f : max;
  return {max, HWY_DYNAMIC_DISPATCH(SumOfExponentials)(logits, n, temperature, finite_max)};
}

std::int64_t TopCandidates(const LogitShard& shard, std::span<TokenScore> out) {
  if (out.empty()) return 0;
  // A heap whose top is the last of those kept.
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < std::ssize(shard.logits); ++i) {
    const TokenScore token{shard.logits[static_cast<std::size_t>(i)], shard.begin + static_cast<std::int32_t>(i)};
    if (std::isnan(token.score)) continue;
    if (count == std::ssize(out)) {
      if (!Precedes(token, out.front())) continue;
      std::pop_heap(out.begin(), out.end(), Precedes);
      out.back() = token;
    } else {
      out[static_cast<std::size_t>(count++)] = token;
    }
    std::push_heap(out.begin(), out.begin() + count, Precedes);
  }
  std::sort_heap(out.begin(), out.begin() + count, Precedes);
  return count;
}

float GumbelScore(std::int32_t id, float logit, float temperature, const GumbelDraw& draw) {
  return GumbelBest({.logits = {&logit, 1}, .begin = id}, temperature, draw).score;
}

TokenScore GumbelBest(const LogitShard& shard, float temperature, const GumbelDraw& draw) {
  CHECK_GT(temperature, 0);
  CHECK_GE(shard.begin, 0);
  constexpr std::int64_t kBatch = 256;
  std::array<std::uint32_t, kBatch> words;
  std::array<float, kBatch> gumbels;
  TokenScore best;
  for (std::int64_t begin = 0; begin < std::ssize(shard.logits); begin += kBatch) {
    const std::int64_t count = std::min(kBatch, std::ssize(shard.logits) - begin);
    FillWords(shard.begin + begin, count, draw, words.data());
    HWY_DYNAMIC_DISPATCH(GumbelOf)(words.data(), count, gumbels.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const float score =
          shard.logits[static_cast<std::size_t>(begin + i)] / temperature + gumbels[static_cast<std::size_t>(i)];
      best = Better(best, {score, shard.begin + static_cast<std::int32_t>(begin + i)});
    }
  }
  return best;
}

}  // namespace trireme::kernels::cpu
#endif  // HWY_ONCE
