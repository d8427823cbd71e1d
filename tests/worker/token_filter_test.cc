// top_k and top_p against Transformers' distributions (fixtures/processors.json), from what shards of the vocabulary
// list.
#include "worker/token_filter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/processor_cases.h"

namespace trireme::worker {
namespace {

// What `num_parts` shards list if each gives its first `num_candidates`.
class Shards {
 public:
  Shards(const std::vector<float>& logits, std::size_t num_parts, std::size_t num_candidates) {
    const std::size_t step = (logits.size() + num_parts - 1) / num_parts;
    lists_.resize(num_parts);
    for (std::size_t p = 0; p < num_parts; ++p) {
      const std::size_t begin = std::min(p * step, logits.size()), end = std::min(begin + step, logits.size());
      const std::span<const float> part(logits.data() + begin, end - begin);
      lists_[p].resize(std::min(num_candidates, part.size()));
      kernels::cpu::TopCandidates({part, static_cast<std::int32_t>(begin)}, lists_[p]);
      parts_.push_back({lists_[p], lists_[p].size() == part.size()});
    }
  }
  Ranking Merged() { return Merge(parts_, merged_); }

 private:
  std::vector<std::vector<TokenScore>> lists_;
  std::vector<RankedPart> parts_;
  std::vector<TokenScore> merged_;
};

std::vector<double> Distribution(const Ranking& ranking, std::size_t num_kept, float temperature, std::size_t size) {
  std::vector<double> probabilities(size, 0.0);
  double sum = 0;
  for (const TokenScore& token : ranking.tokens.first(num_kept)) {
    sum += probabilities[token.id] = std::exp(token.score / temperature - ranking.tokens[0].score / temperature);
  }
  for (double& p : probabilities) p /= sum;
  return probabilities;
}

void ExpectDistribution(const ProcessorCase& c, const Ranking& ranking, std::size_t num_kept) {
  const std::vector<double> ours = Distribution(ranking, num_kept, c.settings.temperature, c.logits.size());
  for (std::size_t id = 0; id < ours.size(); ++id) {
    EXPECT_NEAR(ours[id], c.probabilities[id], 2e-6) << c.name << ", id " << id;
  }
}

LogSumExp ScaledLogSumExp(const ProcessorCase& c) {
  return kernels::cpu::LocalLogSumExp({c.logits, 0}, c.settings.temperature);
}

TEST(TokenFilter, KeepsWhatTransformersKeepsWhateverTheShards) {
  int num_settled = 0;
  for (const ProcessorCase& c : ReadProcessorCases()) {
    if (c.settings.keeps_all()) continue;
    for (std::size_t num_parts : {1, 2, 3, 4, 70}) {
      for (std::size_t num_candidates : {1, 4, 8, 64}) {
        Shards shards(c.logits, num_parts, num_candidates);
        const Ranking ranking = shards.Merged();
        const std::optional<std::size_t> num_kept = NumKept(ranking, c.settings, ScaledLogSumExp(c));
        if (!num_kept) {
          EXPECT_FALSE(ranking.is_complete) << c.name;
          continue;
        }
        ++num_settled;
        ExpectDistribution(c, ranking, *num_kept);
      }
    }
  }
  EXPECT_GT(num_settled, 200);
}

TEST(TokenFilter, MergesAsFarAsTheOrderIsCertain) {
  const std::vector<float> logits = {5, 1, 4, 3, 2, 6};  // parts {5, 1, 4} and {3, 2, 6}
  Shards two_each(logits, 2, 2);
  const Ranking ranking = two_each.Merged();
  EXPECT_FALSE(ranking.is_complete);
  // The first part ends at 4: of what follows, it might have anything up to that.
  EXPECT_THAT(std::vector<TokenScore>(ranking.tokens.begin(), ranking.tokens.end()),
              testing::ElementsAre(TokenScore{6, 5}, TokenScore{5, 0}, TokenScore{4, 2}));
  Shards all(logits, 2, 3);
  EXPECT_TRUE(all.Merged().is_complete);
  EXPECT_EQ(all.Merged().tokens.size(), 6u);
}

SamplingSettings Settings(std::uint32_t top_k, float top_p) {
  return {.temperature = 1, .top_k = top_k, .top_p = top_p};
}

TEST(TokenFilter, AsksForMoreWhereTiesReachTheEnd) {
  const std::vector<TokenScore> tied = {{2, 0}, {1, 1}, {1, 2}};
  EXPECT_EQ(NumKept({tied, false}, Settings(2, 1), {}), std::nullopt);
  EXPECT_EQ(NumKept({tied, true}, Settings(2, 1), {}), 3u);
  EXPECT_EQ(NumKept({tied, false}, Settings(1, 1), {}), 1u);
  EXPECT_EQ(NumKept({tied, false}, Settings(3, 1), {}), std::nullopt);
  EXPECT_EQ(NumKept({tied, false}, Settings(9, 1), {}), std::nullopt);
  EXPECT_EQ(NumKept({tied, true}, Settings(9, 1), {}), 3u);
}

TEST(TokenFilter, TiesAreJudgedAfterTheTemperature) {
  // Two that differ, but not once they are divided in float32.
  constexpr float kTemperature = 1.9f;
  float a = 1.95f, b = std::nextafter(a, 0.0f);
  while (a / kTemperature != b / kTemperature) a = b, b = std::nextafter(a, 0.0f);
  const std::vector<TokenScore> tokens = {{a, 0}, {b, 1}, {0, 2}};
  EXPECT_EQ(NumKept({tokens, false}, {.temperature = kTemperature, .top_k = 1, .top_p = 1}, {}), 2u);
}

TEST(TokenFilter, TopPAsksForMoreUntilTheMassIsReached) {
  const std::vector<TokenScore> tokens = {{0, 0}, {0, 1}, {0, 2}};
  const LogSumExp of_four = {.max = 0, .sum = 4};  // a fourth token is not listed
  EXPECT_EQ(NumKept({tokens, false}, Settings(0, 0.5f), of_four), 2u);
  EXPECT_EQ(NumKept({tokens, false}, Settings(0, 0.6f), of_four), 3u);
  EXPECT_EQ(NumKept({tokens, false}, Settings(0, 0.9f), of_four), std::nullopt);
  EXPECT_EQ(NumKept({tokens, false}, Settings(0, 1e-6f), of_four), 1u);
}

TEST(TokenFilter, KeepsOneTokenWhereScaledLogitsOverflow) {
  const std::vector<TokenScore> tokens = {{30, 0}, {20, 1}};
  const SamplingSettings tiny = {.temperature = 1e-38f, .top_k = 0, .top_p = 0.9f};
  const LogSumExp scaled = kernels::cpu::LocalLogSumExp({std::vector<float>{30, 20}, 0}, tiny.temperature);
  EXPECT_EQ(NumKept({tokens, true}, tiny, scaled), 1u);
}

}  // namespace
}  // namespace trireme::worker
