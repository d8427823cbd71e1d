#include "server/engine/step_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace trireme::server {
namespace {

absl::Duration Ms(double ms) { return absl::Milliseconds(ms); }

struct Observed {
  std::uint32_t tokens;
  double ms;
};

struct Case {
  const char* name;
  std::vector<Observed> observed;
  std::uint32_t decodes;
  double stretch;
  std::uint32_t expected;
};

const Case kCases[] = {
    {"NothingIsKnown", {}, 8, 2, 1},
    {"OnlyPromptsWereMeasured", {{512, 1000}}, 8, 2, 1},
    {"TimeBeyondTheLastPointIsProportional", {{8, 70}}, 8, 2, 8},
    {"BetweenTwoPointsItIsALine", {{8, 70}, {512, 1078}}, 8, 2, 35},  // 2 ms a token
    {"DecodesBetweenTwoPoints", {{8, 70}, {512, 1078}}, 10, 2, 37},
    {"APointIsUsedForFewerDecodesThanHalfMore", {{9, 72}, {512, 1078}}, 8, 2, 37},
    {"MoreDecodesThanWereEverMeasured", {{4, 50}}, 20, 2, 20},
    {"OfAStepWithPromptTokensOnlyAShareIsTheDecodes", {{15, 150}, {512, 5120}}, 8, 2, 10},  // 90 ms; at 10 ms a token
    {"AStretchOfOneLeavesOneToken", {{8, 70}, {512, 1078}}, 8, 1, 1},
    {"AHugeStretchIsNoBound", {{8, 70}, {512, 1078}}, 8, 1e300, 1u << 30},
    {"AFlatCostReachesToTheNextPoint", {{8, 70}, {32, 70}, {512, 1030}}, 8, 2, 59},
    {"ZeroDurationsSayNothing", {{8, 0}, {0, 5}}, 8, 2, 1},
    {"OneDecode", {{1, 30}, {2, 31}, {512, 1051}}, 1, 2, 15},
    {"OneOutlierAmongThreeIsIgnored", {{8, 70}, {8, 900}, {8, 70}, {512, 1078}}, 8, 2, 35},
    {"AShortOutlierIsIgnored", {{8, 70}, {8, 1}, {8, 70}, {512, 1078}}, 8, 2, 35},
};

class StepCostTable : public testing::TestWithParam<Case> {};

TEST_P(StepCostTable, Answers) {
  StepCost cost;
  for (const Observed& one : GetParam().observed) cost.Observe(one.tokens, Ms(one.ms));
  EXPECT_EQ(cost.PromptTokensBeside(GetParam().decodes, GetParam().stretch), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(StepCost, StepCostTable, testing::ValuesIn(kCases),
                         [](const auto& tested) { return tested.param.name; });

// Steps of `num_decodes` and a prompt without end, on a machine that takes milliseconds(tokens).
struct Outcome {
  double worst_ms = 0;       // of the steps after the first ten
  std::uint32_t tokens = 0;  // of the prompt, in all
};
Outcome RunSteps(StepCost& cost, std::uint32_t num_decodes, int num_steps, const std::function<double(double)>& ms) {
  Outcome run;
  for (int step = 0; step < num_steps; ++step) {
    const std::uint32_t prompt = std::min(512u, cost.PromptTokensBeside(num_decodes, 2));
    const double took = ms(num_decodes + prompt);
    cost.Observe(num_decodes + prompt, Ms(took));
    run.tokens += prompt;
    if (step >= 10) run.worst_ms = std::max(run.worst_ms, took);
  }
  return run;
}

TEST(StepCost, FindsTheBoundByItselfWithinAFewSteps) {
  const auto ms = [](double tokens) { return 54 + 2 * tokens; };
  for (const std::uint32_t decodes : {1u, 2u, 3u, 8u, 15u, 16u, 31u, 200u}) {
    StepCost cost;
    const Outcome run = RunSteps(cost, decodes, 200, ms);
    EXPECT_LT(run.worst_ms, 2.2 * ms(decodes)) << decodes;
    const double ideal = (ms(decodes) / 2) * 200;  // tokens, at 2 ms each
    EXPECT_GT(run.tokens, std::min(0.8 * ideal, 0.8 * 512 * 200)) << decodes;
  }
}

TEST(StepCost, KeepsTheBoundWhereCostHasSteps) {  // products padded to 16 rows
  const auto ms = [](double tokens) { return 40 + 30 * std::ceil(tokens / 16); };
  StepCost cost;
  const Outcome run = RunSteps(cost, 8, 200, ms);
  EXPECT_LE(run.worst_ms, 2 * ms(9) + 30);  // a step too far
  EXPECT_GT(run.tokens, 200 * 16u);
}

TEST(StepCost, RemembersTheDecodesForAsLongAsAPromptTakes) {  // where a ninth row costs as much as the eight
  const auto ms = [](double tokens) { return tokens <= 8 ? 60 : 100 + 2 * (tokens - 9); };
  StepCost cost;
  for (int i = 0; i < 10; ++i) cost.Observe(8, Ms(ms(8)));
  EXPECT_LT(RunSteps(cost, 8, 500, ms).worst_ms, 2.2 * ms(8));
}

TEST(StepCost, ForgetsATimeOfTrouble) {
  const auto good = [](double tokens) { return 54 + 2 * tokens; };
  StepCost cost;
  RunSteps(cost, 8, 50, [&](double tokens) { return tokens > 12 ? 20 * good(tokens) : good(tokens); });
  RunSteps(cost, 8, StepCost::kMaxAge, good);
  EXPECT_GT(RunSteps(cost, 8, 100, good).tokens, 100 * 30u);
}

TEST(StepCost, FollowsAMachineThatBecomesSlower) {
  StepCost cost;
  RunSteps(cost, 8, 100, [](double tokens) { return 54 + 2 * tokens; });
  RunSteps(cost, 8, StepCost::kMaxAge, [](double tokens) { return 54 + 6 * tokens; });
  EXPECT_LT(RunSteps(cost, 8, 100, [](double tokens) { return 54 + 6 * tokens; }).worst_ms, 2.2 * (54 + 6 * 8));
}

TEST(StepCost, IsNotDeceivedByNoise) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  StepCost cost;
  int i = 0;
  const Outcome run = RunSteps(cost, 8, 500, [&](double tokens) {
    const double hiccup = ++i % 20 == 0 ? 5 : 1;
    return (54 + 2 * tokens) * noise(random) * hiccup;
  });
  EXPECT_GT(run.tokens, 500 * 20u);
  EXPECT_LT(run.tokens, 500 * 45u);
}

}  // namespace
}  // namespace trireme::server
