#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/philox.h"
#include "tests/support/kernel_oracles.h"

namespace trireme::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

// The vectors of Random123's kat_vectors.
TEST(PhiloxTest, GivesTheKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, TheSeedsLowWordComesFirst) {
  EXPECT_EQ(PhiloxKeyOfSeed(0x0123456789abcdef), (PhiloxKey{0x89abcdef, 0x01234567}));
}

// Sizes 0, 1, odd, and a vocabulary's.
const std::vector<std::int64_t> kSizes = {0, 1, 5, 16, 31, 257, 1000, 49152};

// Logits of a vocabulary, with ties.
std::vector<float> Logits(std::int64_t n, unsigned seed) {
  std::vector<float> logits = oracle::RandomFloats(n, seed, 4.0f);
  for (std::size_t i = 0; i + 3 < logits.size(); i += 3) logits[i + 3] = logits[i];
  return logits;
}

// Calls f(begin, end) for each of three shards, uneven, one empty.
template <typename F>
void ForEachShard(std::int64_t n, const F& f) {
  const std::int64_t first = (n + 1) / 2;
  f(std::int64_t{0}, first);
  f(first, n);
  f(n, n);
}

LogitShard ShardOf(const std::vector<float>& logits, std::int64_t begin, std::int64_t end) {
  return {.logits = std::span(logits).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
          .begin = static_cast<std::int32_t>(begin)};
}

TEST(LocalBestTest, IsTheFirstOfTheRanked) {
  for (const std::int64_t n : kSizes) {
    const auto logits = Logits(n, 1);
    const auto ranked = oracle::Ranked(logits);
    TokenScore best;
    ForEachShard(
        n, [&](std::int64_t begin, std::int64_t end) { best = Better(best, LocalBest(ShardOf(logits, begin, end))); });
    if (n == 0) {
      EXPECT_EQ(best, TokenScore());
    } else {
      EXPECT_EQ(best.id, ranked[0]) << n;
      EXPECT_EQ(best.score, logits[static_cast<std::size_t>(ranked[0])]);
    }
  }
}

TEST(LocalBestTest, TiesGoToTheLowestId) {
  std::vector<float> logits(100, 1.0f);
  EXPECT_EQ(LocalBest({logits, 40}).id, 40);
  logits[63] = logits[77] = 2.0f;
  EXPECT_EQ(LocalBest({logits, 0}), (TokenScore{2.0f, 63}));
  EXPECT_EQ(Better({2.0f, 7}, {2.0f, 3}).id, 3);
  EXPECT_EQ(Better({2.0f, 3}, {2.0f, 7}).id, 3);
}

TEST(LocalBestTest, ANanNeverWins) {
  for (std::size_t at = 0; at < 40; ++at) {
    std::vector<float> logits(40, -1.0f);
    logits[at] = kNan;
    logits[(at + 20) % 40] = 5.0f;
    EXPECT_EQ(LocalBest({logits, 0}).id, static_cast<std::int32_t>((at + 20) % 40));
  }
  const std::vector<float> nans(20, kNan);
  EXPECT_EQ(LocalBest({nans, 0}), TokenScore());
}

TEST(LocalBestTest, AMaskedVocabularyHasALowestId) {
  const std::vector<float> masked(20, -kInfinity);
  EXPECT_EQ(LocalBest({masked, 3}), (TokenScore{-kInfinity, 3}));
}

TEST(LogSumExpTest, JoinedShardsAgreeWithTheOracle) {
  for (const std::int64_t n : kSizes) {
    for (const float temperature : {1.0f, 0.7f, 3.0f}) {
      const auto logits = Logits(n, 2);
      LogSumExp sum;
      ForEachShard(n, [&](std::int64_t begin, std::int64_t end) {
        sum = LogSumExp::Join(sum, LocalLogSumExp(ShardOf(logits, begin, end), temperature));
      });
      // Relative to 1: roundings of the scaled logits (up to 32 at these deviations) and of short sums.
      if (n == 0) {
        EXPECT_EQ(sum.Value(), -kInfinity);
      } else {
        EXPECT_NEAR(sum.Value(), oracle::LogSumExp(logits, temperature), 40 * 0x1p-23) << n;
      }
    }
  }
}

TEST(LogSumExpTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, 3e38f, -3e38f};
  EXPECT_FLOAT_EQ(static_cast<float>(LocalLogSumExp({logits, 0}, 1.0f).Value()), 3e38f);
  const std::vector<float> low(17, -1e30f);
  EXPECT_EQ(LocalLogSumExp({low, 0}, 1.0f).sum, 17.0);
}

TEST(LogSumExpTest, MaskedLogitsCountNothing) {
  std::vector<float> logits(50, -kInfinity);
  EXPECT_EQ(LocalLogSumExp({logits, 0}, 1.0f).Value(), -kInfinity);
  logits[20] = 1.5f;
  EXPECT_EQ(LocalLogSumExp({logits, 0}, 1.0f).Value(), 1.5);
  EXPECT_EQ(LogSumExp::Join({}, LocalLogSumExp({logits, 0}, 1.0f)).Value(), 1.5);
  EXPECT_EQ(LogSumExp::Join(LocalLogSumExp({logits, 0}, 1.0f), {}).Value(), 1.5);
}

TEST(LogSumExpTest, ANanShows) {
  for (const std::size_t at : {0u, 15u, 16u, 39u}) {
    std::vector<float> logits(40, 1.0f);
    logits[at] = kNan;
    const LogSumExp sum = LocalLogSumExp({logits, 0}, 1.0f);
    EXPECT_TRUE(std::isnan(sum.Value())) << at;
    EXPECT_TRUE(std::isnan(LogSumExp::Join(sum, {.max = 2.0f, .sum = 1.0}).Value()));
  }
  const std::vector<float> nans(20, kNan);
  EXPECT_TRUE(std::isnan(LogSumExp::Join({.max = 2.0f, .sum = 1.0}, LocalLogSumExp({nans, 0}, 1.0f)).Value()));
}

TEST(TopCandidatesTest, AreTheFirstOfTheRanked) {
  for (const std::int64_t n : kSizes) {
    for (const std::size_t capacity : {0u, 1u, 7u, 64u, 2000u}) {
      auto logits = Logits(n, 3);
      if (n > 10) logits[4] = kNan;
      const auto ranked = oracle::Ranked(logits);
      std::vector<TokenScore> out(capacity);
      const std::int64_t count = TopCandidates({logits, 0}, out);
      ASSERT_EQ(count, std::min(std::ssize(ranked), std::ssize(out)));
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        ASSERT_EQ(out[i].id, ranked[i]) << n << ", " << capacity;
        ASSERT_EQ(out[i].score, logits[static_cast<std::size_t>(ranked[i])]);
      }
    }
  }
}

TEST(AreNumbersTest, FindsOneThatIsNotWhereverItIs) {
  EXPECT_TRUE(AreNumbers({}));
  for (const std::size_t n : {1u, 15u, 16u, 33u, 1000u}) {
    std::vector<float> logits(n, -kInfinity);  // which is a masked logit
    EXPECT_TRUE(AreNumbers(logits));
    logits.assign(n, 3e38f);
    EXPECT_TRUE(AreNumbers(logits));
    for (std::size_t at = 0; at < n; ++at) {
      for (const float wrong : {kNan, -kNan, kInfinity}) {
        logits[at] = wrong;
        EXPECT_FALSE(AreNumbers(logits)) << wrong << " at " << at << " of " << n;
      }
      logits[at] = -1;
    }
  }
}

TEST(ApplyEditsTest, EditsInOrderAndInFloat32) {
  std::vector<float> logits = {1, -2, 3, -4, 5};
  const LogitPenalties penalties = {.repetition = 1.3f, .frequency = 0.4f, .presence = 0.7f};
  const std::vector<LogitEdit> edits = {
      {.id = 20, .bias = -3, .is_repeated = true},  // 1 − 3 is negative: multiplied
      {.id = 21, .is_repeated = true},
      {.id = 22, .bias = 0.5f, .is_repeated = true, .num_generated = 3},
      {.id = 23, .bias = 100, .is_masked = true},
  };
  ApplyEdits(edits, penalties, 20, logits);
  EXPECT_EQ(logits[0], -2.0f * 1.3f);
  EXPECT_EQ(logits[1], -2.0f * 1.3f);
  EXPECT_EQ(logits[2], 3.5f / 1.3f - 0.4f * 3 - 0.7f);
  EXPECT_EQ(logits[3], -kInfinity);
  EXPECT_EQ(logits[4], 5);
}

TEST(ApplyEditsTest, PenaltiesTouchOnlyWhatIsMarked) {
  std::vector<float> logits = {1, 2};
  ApplyEdits({}, {.repetition = 2, .frequency = 1, .presence = 1}, 0, logits);
  EXPECT_EQ(logits, (std::vector<float>{1, 2}));
  const std::vector<LogitEdit> edits = {{.id = 1}};
  ApplyEdits(edits, {.repetition = 2, .frequency = 1, .presence = 1}, 0, logits);
  EXPECT_EQ(logits, (std::vector<float>{1, 2}));
}

TEST(GumbelTest, ScoresAgreeWithTheDefinition) {
  const GumbelDraw draw{.seed = 0xfedcba9876543210, .position = 77, .sample = 2};
  double sum = 0;
  for (std::int32_t id = 0; id < 20000; ++id) {
    const double want = oracle::Gumbel(id, draw);
    sum += want;
    EXPECT_NEAR(GumbelScore(id, 0.0f, 1.0f, draw), want, 2 * 0x1p-24 * std::abs(want) + 1e-15);
    EXPECT_EQ(GumbelScore(id, 3.0f, 0.5f, draw), 3.0f / 0.5f + GumbelScore(id, 0.0f, 0.5f, draw));
  }
  EXPECT_NEAR(sum / 20000, 0.5772, 0.04);  // the distribution's mean, within four deviations of it
}

TEST(GumbelTest, TheExtremeWordsAreFinite) {
  EXPECT_NEAR(-std::log(-std::log(0.5 * 0x1p-24)), -2.85, 0.01);      // what x = 0 gives
  EXPECT_NEAR(-std::log(-std::log(1 - 0.5 * 0x1p-24)), 17.33, 0.01);  // and x = 2³² − 1
  const GumbelDraw draw{.seed = 1};
  for (std::int32_t id = 0; id < 1 << 20; ++id) {
    const float gumbel = GumbelScore(id, 0.0f, 1.0f, draw);
    ASSERT_GE(gumbel, -2.86f);
    ASSERT_LE(gumbel, 17.4f);
  }
}

TEST(GumbelTest, BestOfShardsIsTheBestOfAllScores) {
  for (const std::int64_t n : kSizes) {
    const auto logits = Logits(n, 4);
    for (const GumbelDraw draw : {GumbelDraw{}, {.seed = 9, .position = 3}, {.seed = 9, .position = 3, .sample = 1}}) {
      TokenScore want, got;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto id = static_cast<std::int32_t>(i);
        want = Better(want, {GumbelScore(id, logits[static_cast<std::size_t>(i)], 0.8f, draw), id});
      }
      ForEachShard(n, [&](std::int64_t begin, std::int64_t end) {
        got = Better(got, GumbelBest(ShardOf(logits, begin, end), 0.8f, draw));
      });
      EXPECT_EQ(got, want) << n;
    }
  }
}

TEST(GumbelTest, MaskedAndNanNeverWin) {
  std::vector<float> logits(30, -kInfinity);
  logits[9] = kNan;
  logits[21] = -5.0f;
  for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_EQ(GumbelBest({logits, 0}, 1.0f, {.seed = seed}).id, 21);
}

TEST(GumbelTest, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f};
  const float temperature = 0.9f;
  constexpr int kDraws = 40000;
  std::vector<int> counts(logits.size());
  for (std::uint32_t position = 0; position < kDraws; ++position) {
    ++counts[static_cast<std::size_t>(GumbelBest({logits, 0}, temperature, {.seed = 5, .position = position}).id)];
  }
  const double total = oracle::LogSumExp(logits, temperature);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp(logits[i] / temperature - total);
    EXPECT_NEAR(counts[i], kDraws * p, 4.5 * std::sqrt(kDraws * p * (1 - p))) << i;
  }
}

}  // namespace
}  // namespace trireme::kernels::cpu
