// Logits, greedy continuations and log-probabilities against Transformers', at every degree that must work.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "tests/worker/fixture_models.h"
#include "tests/worker/loaded_ranks.h"

namespace trireme::worker {
namespace {

struct Golden {
  std::string model;
  bool has_old_config;
  int world;
};

std::vector<Golden> AllGolden() {
  std::vector<Golden> all;
  for (const char* model : {"llama", "llama_bias", "llama_llama3", "text_llama"}) {
    for (int world : ValidTpDegreesOf(model)) {
      for (bool has_old_config : {false, true}) all.push_back({model, has_old_config, world});
    }
  }
  return all;
}

void ExpectNear(const std::vector<float>& expected, const std::vector<float>& logits, double tolerance,
                const std::string& what) {
  ASSERT_GE(logits.size(), expected.size()) << what;
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(logits[i] - expected[i]);
    if (!(difference <= worst)) worst = difference;
  }
  EXPECT_LE(worst, tolerance) << what;
}

// Logits at the end of `tokens`, which go through slot 7.
absl::StatusOr<std::vector<float>> LogitsAfter(const std::vector<std::uint32_t>& tokens, LoadedRank& rank) {
  RETURN_IF_ERROR(rank.driver.Generate(7, tokens, GreedyWithLogprobs(), 1, 128));
  ASSIGN_OR_RETURN(std::vector<float> logits, rank.executor.GatherLogits());
  rank.driver.Release(7);
  return logits;
}

absl::Status CheckLogits(const GoldenCase& golden, LoadedRank& rank) {
  ASSIGN_OR_RETURN(const std::vector<float> last, LogitsAfter(golden.prompt, rank));
  EXPECT_EQ(last.size(), golden.last_logits.size());
  ExpectNear(golden.last_logits, last, 1e-4, "last position");
  for (const auto& [position, expected] : golden.logits_at) {
    const std::vector<std::uint32_t> prefix(golden.prompt.begin(), golden.prompt.begin() + position + 1);
    ASSIGN_OR_RETURN(const std::vector<float> logits, LogitsAfter(prefix, rank));
    ExpectNear(expected, logits, 1e-4, absl::StrCat("position ", position));
  }
  return absl::OkStatus();
}

absl::Status CheckGreedy(const GoldenCase& golden, LoadedRank& rank) {
  const auto num_tokens = static_cast<std::uint32_t>(golden.greedy.size());
  RETURN_IF_ERROR(rank.driver.Generate(0, golden.prompt, GreedyWithLogprobs(), num_tokens, 128));
  EXPECT_EQ(rank.driver.SampledIds(0), golden.greedy);
  for (std::uint32_t i = 0; i < num_tokens; ++i) {
    EXPECT_NEAR(rank.driver.sampled(0)[i].logprob(), golden.greedy_logprobs[i], 2e-3);
    EXPECT_EQ(rank.driver.sampled(0)[i].token_rank(), 1u);
  }
  rank.driver.Release(0);
  return absl::OkStatus();
}

// The reference's continuation as part of the prompt: of each of its tokens we know the reference's log-probability.
absl::Status CheckPromptLogprobs(const GoldenCase& golden, LoadedRank& rank) {
  std::vector<std::uint32_t> prompt = golden.prompt;
  prompt.insert(prompt.end(), golden.greedy.begin(), golden.greedy.end());
  v1::Sampling sampling = Greedy();
  sampling.set_prompt_logprobs(1);
  RETURN_IF_ERROR(rank.driver.Generate(0, prompt, sampling, 1, 16));
  const std::vector<v1::SampledToken>& tokens = rank.driver.prompt_tokens(0);
  EXPECT_EQ(tokens.size(), prompt.size() - 1);
  for (std::size_t i = 0; i < golden.greedy.size(); ++i) {
    const v1::SampledToken& token = tokens.at(golden.prompt.size() - 1 + i);
    EXPECT_EQ(token.token_id(), golden.greedy[i]);
    EXPECT_EQ(token.token_rank(), 1u);
    EXPECT_EQ(token.top(0).token_id(), golden.greedy[i]);
    EXPECT_NEAR(token.logprob(), golden.greedy_logprobs[i], 5e-4);
  }
  rank.driver.Release(0);
  return absl::OkStatus();
}

class ExecutorGolden : public testing::TestWithParam<Golden> {};

TEST_P(ExecutorGolden, AgreesWithTransformers) {
  const Golden& golden = GetParam();
  const auto folder = golden.has_old_config ? FixtureModelWithOldConfig(golden.model) : FixtureModel(golden.model);
  const std::vector<GoldenCase> cases = ReadGoldenCases(golden.model);
  const absl::Status status = RunLoadedRanks(golden.world, SmallOptions(folder), [&](LoadedRank& rank) -> absl::Status {
    for (const GoldenCase& c : cases) {
      RETURN_IF_ERROR(CheckLogits(c, rank));
      RETURN_IF_ERROR(CheckGreedy(c, rank));
      RETURN_IF_ERROR(CheckPromptLogprobs(c, rank));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

std::string GoldenName(const testing::TestParamInfo<Golden>& info) {
  return absl::StrCat(info.param.model, info.param.has_old_config ? "_v4" : "", "_tp", info.param.world);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ExecutorGolden, testing::ValuesIn(AllGolden()), GoldenName);

}  // namespace
}  // namespace trireme::worker
