#include "client/bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme::client {
namespace {

using ::testing::HasSubstr;

// Ten tokens, of which 0, 3 and 9 are special.
v1::GetModelInfoResponse SmallModel() {
  v1::GetModelInfoResponse model;
  model.set_vocab_size(10);
  model.set_max_model_len(1000);
  model.add_eos_token_ids(3);
  model.add_eos_token_ids(9);
  model.set_bos_token_id(3);
  model.set_pad_token_id(0);
  return model;
}

Workload Make(WorkloadOptions options) {
  absl::StatusOr<Workload> workload = Workload::Make(std::move(options), SmallModel());
  EXPECT_TRUE(workload.ok()) << workload.status();
  return *std::move(workload);
}

constexpr LengthDistribution kShort = {.min = 1, .max = 8};

WorkloadOptions Mixed() {
  return {.input_len = {.kind = LengthDistribution::Kind::kUniform, .min = 1, .max = 60},
          .output_len = {.kind = LengthDistribution::Kind::kUniform, .min = 1, .max = 60},
          .seed = 5};
}

TEST(Workload, IsTheSameForTheSameSeedInAnyOrder) {
  const Workload first = Make(Mixed());
  const Workload second = Make(Mixed());
  const std::string tenth = first.Plan(10).request.SerializeAsString();
  std::set<std::string> all;
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(first.Plan(i).request.SerializeAsString(), second.Plan(i).request.SerializeAsString());
    all.insert(first.Plan(i).request.SerializeAsString());
    all.insert(first.PlanWarmup(i).request.SerializeAsString());
  }
  EXPECT_EQ(first.Plan(10).request.SerializeAsString(), tenth);
  EXPECT_EQ(all.size(), 100u);
  WorkloadOptions other = Mixed();
  other.seed = 6;
  EXPECT_NE(Make(other).Plan(10).request.SerializeAsString(), tenth);
}

TEST(Workload, SaltsEveryRequestOfARun) {
  WorkloadOptions options = Mixed();
  options.cache_salt = MakeCacheSalt();
  const Workload workload = Make(options);
  EXPECT_EQ(workload.Plan(0).request.cache_salt(), options.cache_salt);
  EXPECT_EQ(workload.PlanWarmup(9).request.cache_salt(), options.cache_salt);
  EXPECT_NE(MakeCacheSalt(), options.cache_salt);
  EXPECT_EQ(Make(Mixed()).Plan(0).request.cache_salt(), "");
}

TEST(Workload, MakesPromptsOfAllOrdinaryTokens) {
  const Workload workload = Make(Mixed());
  std::set<std::uint32_t> ids;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const v1::GenerateRequest request = workload.Plan(i).request;
    EXPECT_GE(request.token_ids().ids_size(), 1);
    EXPECT_LE(request.token_ids().ids_size(), 60);
    ids.insert(request.token_ids().ids().begin(), request.token_ids().ids().end());
  }
  EXPECT_THAT(ids, testing::ElementsAre(1, 2, 4, 5, 6, 7, 8));
}

TEST(Workload, FillsTheRequestAsTold) {
  const v1::GenerateRequest plain =
      Make({.input_len = {.min = 7, .max = 7}, .output_len = {.min = 9, .max = 9}}).Plan(0).request;
  EXPECT_EQ(plain.token_ids().ids_size(), 7);
  EXPECT_EQ(plain.stopping().max_tokens(), 9u);
  EXPECT_TRUE(plain.stopping().ignore_eos());
  EXPECT_TRUE(plain.sampling().has_temperature());
  EXPECT_EQ(plain.sampling().temperature(), 0);
  EXPECT_TRUE(plain.sampling().has_seed());
  EXPECT_FALSE(plain.has_stream());
  const v1::GenerateRequest other = Make({.temperature = 0.5f, .ignore_eos = false, .stream = false}).Plan(0).request;
  EXPECT_FALSE(other.stopping().ignore_eos());
  EXPECT_EQ(other.sampling().temperature(), 0.5f);
  EXPECT_TRUE(other.has_stream());
  EXPECT_FALSE(other.stream());
}

TEST(Workload, CancelsItsShareAmidTheOutputAndChangesNothingElse) {
  WorkloadOptions options = Mixed();
  const Workload without = Make(options);
  options.cancel_share = 0.3;
  const Workload with = Make(options);
  int cancelled = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const PlannedRequest planned = with.Plan(i);
    EXPECT_EQ(planned.request.SerializeAsString(), without.Plan(i).request.SerializeAsString());
    EXPECT_EQ(without.Plan(i).cancel_after_tokens, std::nullopt);
    if (!planned.cancel_after_tokens.has_value()) continue;
    ++cancelled;
    EXPECT_GE(*planned.cancel_after_tokens, 1u);
    EXPECT_LT(*planned.cancel_after_tokens, std::max(2u, planned.request.stopping().max_tokens()));
  }
  EXPECT_NEAR(cancelled, 300, 5 * 14.5);  // 5 standard deviations
  options.cancel_share = 1;
  EXPECT_TRUE(Make(options).Plan(0).cancel_after_tokens.has_value());
}

TEST(Workload, TakesPromptsInTurn) {
  const Workload workload =
      Make({.output_len = kShort,
            .prompts = {{.prompt = "Hello"}, {.prompt = std::vector<std::uint32_t>{5, 6}, .output_tokens = 77}}});
  EXPECT_EQ(workload.Plan(0).request.text(), "Hello");
  EXPECT_EQ(workload.Plan(2).request.text(), "Hello");
  const v1::GenerateRequest second = workload.Plan(1).request;
  EXPECT_THAT(second.token_ids().ids(), testing::ElementsAre(5, 6));
  EXPECT_EQ(second.stopping().max_tokens(), 77u);
}

TEST(Workload, RefusesWhatTheServerCannotTake) {
  const auto message = [](WorkloadOptions options) {
    const absl::StatusOr<Workload> workload = Workload::Make(std::move(options), SmallModel());
    EXPECT_EQ(workload.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(workload.status().message());
  };
  EXPECT_EQ(message({.input_len = {.min = 501, .max = 501},
                     .output_len = {.kind = LengthDistribution::Kind::kUniform, .min = 5, .max = 500}}),
            "--input-len 501 and --output-len uniform:5-500 may come to 1001 tokens, the server takes 1000");
  EXPECT_TRUE(
      Workload::Make({.input_len = {.min = 500, .max = 500}, .output_len = {.min = 500, .max = 500}}, SmallModel())
          .ok());
  v1::GetModelInfoResponse no_ordinary = SmallModel();
  no_ordinary.set_vocab_size(1);
  EXPECT_EQ(Workload::Make({}, no_ordinary).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace trireme::client
