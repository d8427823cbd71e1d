// What filters keep, and when they cannot tell. processors_test.cc compares with Transformers.
#include "worker/token_filter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

TEST(TokenFilter, MinPEndsWhereTheRatioFallsBelow) {
  const float half = std::log(2.0f);
  const std::vector<TokenScore> tokens = {{0, 0}, {-half, 1}, {-2 * half, 2}, {-3 * half, 3}};
  const auto num_kept = [&](float min_p, bool is_complete) {
    return NumKept({tokens, is_complete}, {.temperature = 1, .min_p = min_p}, {});
  };
  EXPECT_EQ(num_kept(0.6f, false), 1u);
  EXPECT_EQ(num_kept(0.4f, false), 2u);
  EXPECT_EQ(num_kept(0.2f, false), 3u);
  EXPECT_EQ(num_kept(0.1f, false), std::nullopt);
  EXPECT_EQ(num_kept(0.1f, true), 4u);
  EXPECT_EQ(num_kept(1, false), 1u);
}

TEST(TokenFilter, MinPSettlesWhatTopKAndTopPLeaveOpen) {
  const std::vector<TokenScore> tokens = {{0, 0}, {-1, 1}, {-9, 2}};
  EXPECT_EQ(NumKept({tokens, false}, {.temperature = 1, .top_k = 50, .min_p = 0.1f}, {}), 2u);
  const LogSumExp of_many = {.max = 0, .sum = 10};  // what is listed has not even half of the mass
  EXPECT_EQ(NumKept({tokens, false}, {.temperature = 1, .top_p = 0.9f, .min_p = 0.1f}, of_many), 2u);
  // Here top_p is a part of a sum that is not known, and may end before min_p does.
  EXPECT_EQ(NumKept({tokens, false}, {.temperature = 1, .top_k = 50, .top_p = 0.9f, .min_p = 0.1f}, {}), std::nullopt);
  EXPECT_EQ(NumKept({tokens, false}, {.temperature = 1, .top_k = 1, .min_p = 0.1f}, {}), 1u);
}

TEST(TokenFilter, TypicalPAloneWantsTheWholeRow) {
  const std::vector<TokenScore> tokens = {{0, 0}, {-1, 1}, {-9, 2}};
  EXPECT_EQ(NumKept({tokens, false}, {.temperature = 1, .typical_p = 0.5f}, {}), std::nullopt);
  EXPECT_EQ(NumKept({tokens, true}, {.temperature = 1, .typical_p = 0.5f}, {}), 3u);
  EXPECT_EQ(NumKept({tokens, false}, {.temperature = 1, .top_k = 2, .typical_p = 0.5f}, {}), 2u);
}

std::vector<std::int32_t> TypicalIds(const std::vector<float>& probabilities, float mass) {
  std::vector<TokenScore> tokens;
  for (float p : probabilities) tokens.push_back({std::log(p), static_cast<std::int32_t>(tokens.size())});
  TypicalFilter filter(tokens.size());
  std::vector<std::int32_t> ids;
  for (const TokenScore& token : filter.Keep(tokens, {.temperature = 1, .typical_p = mass})) ids.push_back(token.id);
  return ids;
}

TEST(TypicalFilter, KeepsWhatIsClosestToTheEntropy) {
  // Entropy 1.21 nats; surprises 0.69, 1.39, 2.08, 2.08.
  const std::vector<float> probabilities = {0.5f, 0.25f, 0.125f, 0.125f};
  EXPECT_THAT(TypicalIds(probabilities, 0.2f), testing::ElementsAre(1));
  EXPECT_THAT(TypicalIds(probabilities, 0.6f), testing::ElementsAre(0, 1));
  EXPECT_THAT(TypicalIds(probabilities, 0.8f), testing::ElementsAre(0, 1, 2, 3));  // the tie of the last comes, too
  EXPECT_THAT(TypicalIds(probabilities, 1), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(TypicalIds({1}, 0.1f), testing::ElementsAre(0));
}

TEST(TypicalFilter, LeavesOutWhatIsMasked) {
  EXPECT_THAT(TypicalIds({0.9f, 0.1f, 0, 0}, 0.99f), testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace trireme::worker
