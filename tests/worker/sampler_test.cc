// The sampler on ranks that each hold a part of the vocabulary.
#include "worker/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/rank_harness.h"
#include "tests/worker/processor_cases.h"
#include "worker/cpu_ops.h"

namespace trireme::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Token {
  absl::Status status;
  std::int32_t id;
  float logprob;
  std::int64_t rank;
  std::vector<TokenScore> top;
  friend bool operator==(const Token&, const Token&) = default;
};

struct Request {
  std::vector<float> logits;
  SamplingSettings settings;
  std::vector<std::int32_t> tokens = {3, 1, 2, 3, 0};
  std::uint32_t num_prompt_tokens = 2;
  std::optional<std::int32_t> prompt_token = {};

  History history() const { return {tokens, num_prompt_tokens}; }
};

// The ceil rule: later ranks may be short or empty.
sharding::Interval PartOf(std::int64_t vocabulary, sharding::Rank rank) {
  const std::int64_t step = (vocabulary + rank.world - 1) / rank.world;
  return {std::min(rank.index * step, vocabulary), std::min((rank.index + 1) * step, vocabulary)};
}

absl::StatusOr<std::vector<Token>> SampleOnRank(const std::vector<Request>& requests, std::int32_t num_candidates,
                                                sharding::Interval part, Communicator& communicator) {
  std::vector<float> logits;
  std::vector<LogitRow> rows;
  for (const Request& request : requests) {
    logits.insert(logits.end(), request.logits.begin() + part.begin, request.logits.begin() + part.end);
    rows.push_back({.slot = static_cast<std::uint32_t>(rows.size()),
                    .epoch = 1,
                    .history = request.history(),
                    .settings = &request.settings,
                    .prompt_token = request.prompt_token});
  }
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  const auto ops = MakeCpuOps({.num_threads = 1 + communicator.rank().index % 2, .max_rows = num_rows});
  ASSIGN_OR_RETURN(const auto sampler, Sampler::Create({.vocabulary = std::ssize(requests[0].logits),
                                                        .local_vocabulary = part,
                                                        .max_rows = num_rows,
                                                        .max_sampled = num_rows,
                                                        .num_candidates = num_candidates},
                                                       *ops, communicator));
  ASSIGN_OR_RETURN(const auto sampled, sampler->Sample({logits.data(), num_rows, part.size()}, rows));
  std::vector<Token> tokens;
  for (const RowToken& t : sampled) {
    tokens.push_back({t.status, t.id, t.logprob, t.rank, {t.top.begin(), t.top.end()}});
  }
  return tokens;
}

// Samples on `world` ranks, who must agree.
absl::StatusOr<std::vector<Token>> Sample(const std::vector<Request>& requests, int world,
                                          std::int32_t num_candidates = 64) {
  std::vector<std::vector<Token>> by_rank(world);
  const auto results = test_support::RunRanks(world, [&](Communicator& communicator) -> absl::Status {
    const sharding::Interval part = PartOf(std::ssize(requests[0].logits), communicator.rank());
    ASSIGN_OR_RETURN(by_rank[communicator.rank().index], SampleOnRank(requests, num_candidates, part, communicator));
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(test_support::FirstCause(results));
  for (const auto& tokens : by_rank) EXPECT_TRUE(tokens == by_rank[0]);
  return by_rank[0];
}

std::vector<float> RandomLogits(std::size_t size, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// The definition: the greatest Gumbel score (or logit) among the tokens that the reference keeps.
std::int32_t ExpectedDraw(const ProcessorCase& c, const Request& request) {
  const std::vector<float> logits = EditedLogits(c.logits, c.history(), c.settings);
  const auto position = static_cast<std::uint32_t>(request.tokens.size());
  TokenScore best;
  for (std::int32_t id = 0; id < std::ssize(logits); ++id) {
    if (c.probabilities[id] == 0) continue;
    const float score =
        c.settings.is_greedy()
            ? logits[id]
            : kernels::cpu::GumbelScore(
                  id, logits[id], c.settings.temperature,
                  {.seed = request.settings.seed, .position = position, .sample = request.settings.sample});
    best = kernels::cpu::Better(best, {score, id});
  }
  return best.id;
}

std::vector<Request> RequestsOf(const ProcessorCase& c, int count) {
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request request = {
        .logits = c.logits, .settings = c.settings, .tokens = c.tokens, .num_prompt_tokens = c.num_prompt_tokens};
    request.settings.seed = 1000 + i / 3;
    request.settings.sample = i % 3;
    requests.push_back(request);
  }
  return requests;
}

TEST(Sampler, DrawsTheSameTokenAtEveryDegree) {
  for (const ProcessorCase& c : ReadProcessorCases()) {
    const std::vector<Request> requests = RequestsOf(c, 40);
    for (int world : {1, 2, 3, 5}) {
      for (std::int32_t num_candidates : {3, 64}) {
        const auto tokens = Sample(requests, world, num_candidates);
        ASSERT_TRUE(tokens.ok()) << tokens.status();
        for (std::size_t i = 0; i < requests.size(); ++i) {
          ASSERT_EQ((*tokens)[i].id, ExpectedDraw(c, requests[i])) << c.name << " world " << world << " row " << i;
        }
      }
    }
  }
}

// Pearson's statistic, of ids that are expected at least five times.
double ChiSquare(const std::map<std::int32_t, int>& counts, const std::vector<double>& probabilities, int total,
                 int* degrees) {
  double statistic = 0, rest_expected = 0;
  int rest_count = 0;
  *degrees = -1;
  const auto add = [&](double expected, int count) {
    statistic += (count - expected) * (count - expected) / expected;
    ++*degrees;
  };
  for (std::size_t id = 0; id < probabilities.size(); ++id) {
    const auto found = counts.find(static_cast<std::int32_t>(id));
    const int count = found == counts.end() ? 0 : found->second;
    const double expected = probabilities[id] * total;
    if (expected >= 5) {
      add(expected, count);
    } else {
      rest_expected += expected;
      rest_count += count;
    }
  }
  if (rest_expected > 0) add(rest_expected, rest_count);
  return statistic;
}

TEST(Sampler, FrequenciesFollowTransformersDistribution) {
  constexpr int kDraws = 1500;
  for (const ProcessorCase& c : ReadProcessorCases()) {
    const auto tokens = Sample(RequestsOf(c, kDraws), 2);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    std::map<std::int32_t, int> counts;
    for (const Token& token : *tokens) ++counts[token.id];
    for (const auto& [id, count] : counts)
      EXPECT_GT(c.probabilities[id], 0) << c.name << ": id " << id << " was not kept";
    int degrees = 0;
    const double statistic = ChiSquare(counts, c.probabilities, kDraws, &degrees);
    EXPECT_LE(statistic, degrees + 5 * std::sqrt(2.0 * degrees) + 1e-9) << c.name;  // five standard deviations
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEqualIds) {
  const std::vector<Request> requests = {{.logits = {1, 7, 2, 7, 0, 7}, .settings = {}},
                                         {.logits = {-1, -2, -3, -4, -5, -1}, .settings = {}},
                                         {.logits = {0, 0, 0, 0, 0, 1}, .settings = {}}};
  for (int world : {1, 2, 3, 4, 9}) {
    const auto tokens = Sample(requests, world);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    EXPECT_EQ((*tokens)[0].id, 1);
    EXPECT_EQ((*tokens)[1].id, 0);
    EXPECT_EQ((*tokens)[2].id, 5);
  }
}

double LogSumExpOf(const std::vector<float>& logits) {
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum);
}

void ExpectLogprobs(const Token& token, const Request& request) {
  const double log_sum_exp = LogSumExpOf(request.logits);
  std::vector<TokenScore> sorted;
  for (std::size_t id = 0; id < request.logits.size(); ++id) {
    sorted.push_back({request.logits[id], static_cast<std::int32_t>(id)});
  }
  std::sort(sorted.begin(), sorted.end(), kernels::cpu::Precedes);
  EXPECT_NEAR(token.logprob, request.logits[token.id] - log_sum_exp, 1e-5);
  const auto place = std::find_if(sorted.begin(), sorted.end(), [&](const auto& t) { return t.id == token.id; });
  EXPECT_EQ(token.rank, place - sorted.begin() + 1);
  const auto wanted = request.prompt_token ? request.settings.num_prompt_logprobs : request.settings.num_logprobs;
  ASSERT_EQ(token.top.size(), std::min<std::size_t>(*wanted, sorted.size()));
  for (std::size_t i = 0; i < token.top.size(); ++i) {
    EXPECT_EQ(token.top[i].id, sorted[i].id);
    EXPECT_NEAR(token.top[i].score, sorted[i].score - log_sum_exp, 1e-5);
  }
}

TEST(Sampler, GivesLogprobsOfTheModelsOwnDistribution) {
  std::vector<Request> requests;
  for (std::uint32_t num_logprobs : {0u, 1u, 5u, 256u}) {
    requests.push_back({.logits = RandomLogits(5003, 1), .settings = {.num_logprobs = num_logprobs}});
    requests.push_back(
        {.logits = RandomLogits(5003, 2), .settings = {.temperature = 2, .seed = 3, .num_logprobs = num_logprobs}});
    requests.push_back({.logits = RandomLogits(5003, 3),
                        .settings = {.temperature = 0.5f, .top_k = 40, .top_p = 0.9f, .num_logprobs = num_logprobs}});
    // The likeliest by far is not the model's.
    requests.push_back(
        {.logits = RandomLogits(5003, 6), .settings = {.logit_bias = {{4711, 50}}, .num_logprobs = num_logprobs}});
  }
  for (std::int32_t token : {0, 17, 4002, 5002}) {
    requests.push_back(
        {.logits = RandomLogits(5003, 5), .settings = {.num_prompt_logprobs = 3}, .prompt_token = token});
  }
  requests.push_back({.logits = RandomLogits(5003, 4), .settings = {}});  // a mate that asks for none
  std::vector<Token> at_one;
  for (int world : {1, 2, 3, 9}) {
    const auto tokens = Sample(requests, world);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    for (std::size_t i = 0; i + 1 < requests.size(); ++i) {
      ExpectLogprobs((*tokens)[i], requests[i]);
      EXPECT_EQ((*tokens)[i].id, requests[i].prompt_token.value_or((*tokens)[i].id));
    }
    EXPECT_THAT(tokens->back().top, testing::IsEmpty());
    if (world == 1) at_one = *tokens;
    for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ((*tokens)[i].id, at_one[i].id);
  }
}

TEST(Sampler, TiesOfTheRankGoToTheLowerId) {
  std::vector<Request> requests = {{.logits = {3, 5, 5, 5}, .settings = {.num_logprobs = 3}}};
  const auto tokens = Sample(requests, 2);
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ((*tokens)[0].rank, 1);
  ASSERT_EQ((*tokens)[0].top.size(), 3u);
  EXPECT_EQ((*tokens)[0].top[2].id, 3);
}

// All processors at once.
SamplingSettings Everything(std::uint64_t seed) {
  SamplingSettings settings = {.logit_bias = {{3, 2.5f}, {500, -1}, {999, 6}},
                               .repetition_penalty = 1.2f,
                               .frequency_penalty = 0.3f,
                               .presence_penalty = -0.4f,
                               .bad_words = {{17}, {3, 0}, {0, 21}},
                               .min_tokens = 4,
                               .ending_token_ids = {999},
                               .temperature = 1.7f,
                               .top_k = 60,
                               .top_p = 0.95f,
                               .min_p = 0.01f,
                               .typical_p = 0.9f,
                               .seed = seed,
                               .num_logprobs = 3};
  if (seed % 3 == 1) settings.top_k = 0;
  if (seed % 4 == 1) settings.typical_p = 1;
  if (seed % 5 == 1) settings.top_p = 1;
  if (seed % 6 == 1) settings.min_p = 0;
  return settings;
}

TEST(Sampler, MatesInTheBatchChangeNothing) {
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back({.logits = RandomLogits(1000, 50 + i), .settings = Everything(i)});
    requests.push_back({.logits = RandomLogits(1000, i),
                        .settings = {.temperature = i % 4 * 0.6f,
                                     .top_k = i % 3 * 30u,
                                     .top_p = i % 2 == 0 ? 1 : 0.8f,
                                     .seed = static_cast<std::uint64_t>(i),
                                     .num_logprobs = 2}});
  }
  const auto together = Sample(requests, 3, 4);
  ASSERT_TRUE(together.ok());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = Sample({requests[i]}, 3, 4);
    ASSERT_TRUE(alone.ok());
    EXPECT_TRUE((*alone)[0] == (*together)[i]) << "row " << i;
  }
}

TEST(Sampler, TopKBeyondTheCandidatesGathersTheRow) {
  std::vector<Request> requests = {
      {.logits = RandomLogits(3000, 1), .settings = {.temperature = 5, .top_k = 1000, .seed = 9}},
      {.logits = RandomLogits(3000, 1), .settings = {.temperature = 50, .top_p = 0.99f, .seed = 9}}};
  const auto one = Sample(requests, 1), four = Sample(requests, 4);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_TRUE(*one == *four);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Samples `wrong` between two rows that are right, at several degrees. The status of the row; its mates must not care.
absl::Status StatusBetweenMates(const Request& wrong) {
  std::vector<Request> mates = {{.logits = std::vector<float>(wrong.logits.size(), 1), .settings = {}},
                                {.logits = std::vector<float>(wrong.logits.size(), 1),
                                 .settings = {.repetition_penalty = 2, .temperature = 1, .num_logprobs = 1}}};
  absl::Status status;
  for (int world : {1, 2, 3}) {
    const auto alone = Sample(mates, world);
    const auto tokens = Sample({mates[0], wrong, mates[1]}, world);
    EXPECT_TRUE(tokens.ok() && alone.ok()) << tokens.status();
    if (!tokens.ok() || !alone.ok()) return absl::UnknownError("see above");
    EXPECT_TRUE((*tokens)[0] == (*alone)[0]);
    EXPECT_TRUE((*tokens)[2] == (*alone)[1]);
    if (world == 1) status = (*tokens)[1].status;
    EXPECT_EQ((*tokens)[1].status, status);
  }
  return status;
}

TEST(Sampler, ARowWhoseLogitsAreNotNumbersFailsAlone) {
  for (const std::vector<float>& logits : {std::vector<float>{kNan, kNan, kNan, kNan},
                                           {1, 2, 3, kNan},
                                           {kInfinity, 2, 3, 4},
                                           {-kInfinity, -kInfinity, -kInfinity, -kInfinity}}) {
    for (const SamplingSettings& settings :
         std::vector<SamplingSettings>{{},
                                       {.temperature = 1},
                                       {.temperature = 1, .top_p = 0.5f, .num_logprobs = 2},
                                       {.repetition_penalty = 2, .bad_words = {{0}, {3}}, .temperature = 1}}) {
      const absl::Status status = StatusBetweenMates({.logits = logits, .settings = settings});
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()), HasSubstr("the logits of slot 1 at position 5 are not numbers"));
    }
  }
}

TEST(Sampler, APromptRowWhoseLogitsAreNotNumbersFailsAlone) {
  const absl::Status status =
      StatusBetweenMates({.logits = {1, 2, 3, kNan}, .settings = {.num_prompt_logprobs = 0}, .prompt_token = 1});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
}

TEST(Sampler, SaysSoWhereNoTokenIsLeft) {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float top_p : {1.0f, 0.5f}) {
      Request request = {.logits = {1, 2, 3, 4},
                         .settings = {.bad_words = {{0}, {3, 0, 1}},
                                      .min_tokens = 4,
                                      .ending_token_ids = {2, 3},
                                      .temperature = temperature,
                                      .top_p = top_p},
                         .tokens = {2, 2, 2, 3, 0}};
      const absl::Status status = StatusBetweenMates(request);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("no token is left to choose at position 5: bad_words and "
                                                           "min_tokens forbid all 4 of the vocabulary"));
      request.tokens = {2, 2, 2, 0, 3};  // now 1 completes no bad word
      const auto tokens = Sample({request}, 2);
      ASSERT_TRUE(tokens.ok()) << tokens.status();
      EXPECT_EQ((*tokens)[0].id, 1);
    }
  }
}

TEST(Sampler, SaysSoWhereSettingsMakeLogitsOverflow) {
  const auto message = [](const SamplingSettings& settings) {
    const absl::Status status = StatusBetweenMates({.logits = {30, 20, -20, 10}, .settings = settings});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({.repetition_penalty = 1e-38f}), HasSubstr("overflow by logit_bias and penalties"));
  EXPECT_THAT(message({.logit_bias = {{0, 3e38f}}, .frequency_penalty = -3e38f}), HasSubstr("at position 5"));
  EXPECT_THAT(message({.temperature = 1e-38f}), HasSubstr("overflow by a temperature of 1e-38"));
  EXPECT_THAT(message({.temperature = 1e-38f, .top_p = 0.9f}), HasSubstr("overflow by a temperature of 1e-38"));
  EXPECT_THAT(message({.logit_bias = {{0, -60}, {1, -60}, {3, -60}}, .temperature = 1e-38f, .typical_p = 0.5f}),
              HasSubstr("overflow by a temperature of 1e-38"));
}

TEST(Sampler, AllProcessorsTogetherDrawTheSameAtEveryDegree) {
  std::vector<Request> requests;
  for (int i = 0; i < 30; ++i) requests.push_back({.logits = RandomLogits(1000, i), .settings = Everything(i)});
  std::vector<Token> at_one;
  for (int world : {1, 2, 3, 5}) {
    for (std::int32_t num_candidates : {4, 64}) {
      const auto tokens = Sample(requests, world, num_candidates);
      ASSERT_TRUE(tokens.ok()) << tokens.status();
      if (at_one.empty()) at_one = *tokens;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ((*tokens)[i].id, at_one[i].id) << "world " << world << " row " << i;
        EXPECT_NE((*tokens)[i].id, 17);
        EXPECT_NE((*tokens)[i].id, 999);
        ExpectLogprobs((*tokens)[i], requests[i]);
      }
    }
  }
}

TEST(Sampler, SamplesOfARequestDifferAndRepeatThemselves) {
  std::vector<Request> requests;
  for (std::uint32_t sample : {0u, 1u, 2u, 3u, 0u}) {
    requests.push_back({.logits = RandomLogits(1000, 1), .settings = {.temperature = 3, .seed = 4, .sample = sample}});
  }
  const auto tokens = Sample(requests, 2);
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ((*tokens)[0].id, (*tokens)[4].id);
  std::set<std::int32_t> ids;
  for (const Token& token : *tokens) ids.insert(token.id);
  EXPECT_EQ(ids.size(), 4u);
}

TEST(Sampler, TakesVocabulariesThatEveryRankHoldsWhole) {
  const std::vector<Request> requests = {{.logits = {1, 9, 3, 4}, .settings = {.num_logprobs = 2}}};
  const auto results = test_support::RunRanks(2, [&](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const auto tokens, SampleOnRank(requests, 64, {0, 4}, communicator));
    EXPECT_EQ(tokens[0].id, 1);
    EXPECT_EQ(tokens[0].top.size(), 2u);
    return absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(Sampler, GathersLogitsInTheOrderOfTheVocabulary) {
  const std::vector<float> all = RandomLogits(2 * 101, 1);
  const auto results = test_support::RunRanks(3, [&](Communicator& communicator) -> absl::Status {
    const sharding::Interval part = PartOf(101, communicator.rank());
    std::vector<float> mine;
    for (int row = 0; row < 2; ++row) {
      mine.insert(mine.end(), all.begin() + row * 101 + part.begin, all.begin() + row * 101 + part.end);
    }
    const auto ops = MakeCpuOps({.max_rows = 2});
    ASSIGN_OR_RETURN(const auto sampler,
                     Sampler::Create({.vocabulary = 101, .local_vocabulary = part, .max_rows = 2, .max_sampled = 2},
                                     *ops, communicator));
    ASSIGN_OR_RETURN(const std::vector<float> gathered, sampler->GatherLogits({mine.data(), 2, part.size()}));
    EXPECT_EQ(gathered, all);
    return absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace trireme::worker
