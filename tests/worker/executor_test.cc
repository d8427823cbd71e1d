// What an executor promises besides the right numbers: bits that depend on nothing but the sequence, and named errors.
#include "worker/executor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/fixture_models.h"
#include "tests/worker/loaded_ranks.h"
#include "worker/single_rank_communicator.h"

namespace trireme::worker {
namespace {

using testing::HasSubstr;

std::vector<std::uint32_t> Prompt(std::size_t size, std::uint32_t seed) {
  std::vector<std::uint32_t> prompt;
  for (std::size_t i = 0; i < size; ++i) prompt.push_back((seed * 7919 + i * i * 31 + i * 17) % 190);
  return prompt;
}

// All processors, by turns.
v1::Sampling Seeded(std::uint64_t seed) {
  v1::Sampling sampling = Greedy();
  sampling.set_temperature(0.9f);
  sampling.set_top_k(static_cast<std::uint32_t>(seed % 3 * 20));
  sampling.set_top_p(seed % 2 == 0 ? 1 : 0.95f);
  sampling.set_min_p(seed % 4 == 1 ? 0.02f : 0);
  sampling.set_typical_p(seed % 5 == 1 ? 0.9f : 1);
  sampling.set_seed(seed);
  sampling.set_sample(static_cast<std::uint32_t>(seed % 2));
  sampling.set_logprobs(3);
  if (seed % 3 == 0) return sampling;
  (*sampling.mutable_logit_bias())[static_cast<std::uint32_t>(seed)] = 4;
  sampling.set_repetition_penalty(1.3f);
  sampling.set_frequency_penalty(0.5f);
  sampling.set_presence_penalty(0.25f);
  sampling.add_bad_words()->add_ids(3);
  sampling.set_min_tokens(5);
  sampling.add_ending_token_ids(static_cast<std::uint32_t>(seed));
  return sampling;
}

std::string TextOf(const std::vector<v1::SampledToken>& tokens) {
  std::string text;
  for (const v1::SampledToken& token : tokens) absl::StrAppend(&text, token.ShortDebugString(), "\n");
  return text;
}

// Runs on 1 and 2 ranks, with 1 and 2 threads each.
void RunAtSeveralDegrees(const std::function<absl::Status(LoadedRank&)>& body) {
  for (int world : {1, 2}) {
    for (int num_threads : {1, 2}) {
      ExecutorOptions options = SmallOptions(FixtureModel("llama"));
      options.num_threads = num_threads;
      const absl::Status status = RunLoadedRanks(world, options, body);
      EXPECT_TRUE(status.ok()) << "world " << world << ": " << status;
    }
  }
}

TEST(Executor, ChunksOfThePromptChangeNoBit) {
  const std::vector<std::uint32_t> prompt = Prompt(50, 1);
  RunAtSeveralDegrees([&](LoadedRank& rank) -> absl::Status {
    std::vector<float> whole_logits;
    std::string whole_tokens;
    for (std::uint32_t chunk : {128u, 1u, 3u, 17u}) {
      RETURN_IF_ERROR(rank.driver.Generate(2, prompt, Seeded(4), 6, chunk));
      ASSIGN_OR_RETURN(const std::vector<float> logits, rank.executor.GatherLogits());
      if (chunk == 128) {
        whole_logits = logits;
        whole_tokens = TextOf(rank.driver.sampled(2));
      }
      EXPECT_TRUE(logits == whole_logits) << "chunks of " << chunk;
      EXPECT_EQ(TextOf(rank.driver.sampled(2)), whole_tokens);
      rank.driver.Release(2);
    }
    return absl::OkStatus();
  });
}

// Slot s has a prompt of its own length and settings; prompts go through in chunks while others decode.
absl::Status GenerateTogether(std::uint32_t num_slots, std::uint32_t num_tokens, LoadedRank& rank) {
  std::vector<std::uint32_t> left(num_slots);
  for (std::uint32_t s = 0; s < num_slots; ++s) {
    left[s] = 5 + 13 * s;
    rank.driver.Admit(s, Prompt(left[s], s), Seeded(s));
  }
  for (bool is_done = false; !is_done;) {
    std::vector<Work> work;
    for (std::uint32_t s = 0; s < num_slots; ++s) {
      const std::uint32_t count = left[s] > 0 ? std::min(left[s], 11u) : 1;
      if (rank.driver.sampled(s).size() < num_tokens) work.push_back({s, count});
      left[s] -= std::min(left[s], count);
    }
    RETURN_IF_ERROR(rank.driver.Step(work).status());
    is_done = true;
    for (std::uint32_t s = 0; s < num_slots; ++s) is_done &= rank.driver.sampled(s).size() == num_tokens;
  }
  return absl::OkStatus();
}

TEST(Executor, MatesInTheBatchChangeNoBit) {
  constexpr std::uint32_t kSlots = 6, kTokens = 10;
  RunAtSeveralDegrees([&](LoadedRank& rank) -> absl::Status {
    RETURN_IF_ERROR(GenerateTogether(kSlots, kTokens, rank));
    std::vector<std::string> together;
    for (std::uint32_t s = 0; s < kSlots; ++s) {
      together.push_back(TextOf(rank.driver.sampled(s)));
      rank.driver.Release(s);
    }
    for (std::uint32_t s = 0; s < kSlots; ++s) {
      RETURN_IF_ERROR(rank.driver.Generate(0, Prompt(5 + 13 * s, s), Seeded(s), kTokens, 128));
      EXPECT_EQ(TextOf(rank.driver.sampled(0)), together[s]) << "slot " << s;
      rank.driver.Release(0);
    }
    return absl::OkStatus();
  });
}

TEST(Executor, ASequenceThatComesBackGoesOnWithTheSameTokens) {
  const std::vector<std::uint32_t> prompt = Prompt(40, 3);
  RunAtSeveralDegrees([&](LoadedRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.driver.Generate(0, prompt, Seeded(7), 20, 128));
    const std::vector<std::uint32_t> expected = rank.driver.SampledIds(0);
    rank.driver.Release(0);

    std::vector<std::uint32_t> tokens = prompt;
    std::vector<std::uint32_t> got;
    for (std::uint32_t slot : {0u, 5u, 0u}) {  // taken off twice
      RETURN_IF_ERROR(rank.driver.Generate(slot, tokens, Seeded(7), slot == 5 ? 9 : 6, 16,
                                           static_cast<std::uint32_t>(prompt.size())));
      for (std::uint32_t id : rank.driver.SampledIds(slot)) {
        if (got.size() == expected.size()) break;
        tokens.push_back(id);
        got.push_back(id);
      }
      rank.driver.Release(slot);
    }
    EXPECT_EQ(got, expected);
    return absl::OkStatus();
  });
}

TEST(Executor, ThreadsAndDegreesAgreeOnSeededTokens) {
  std::vector<std::uint32_t> at_one;
  for (int world : {1, 2, 4}) {
    const absl::Status status =
        RunLoadedRanks(world, SmallOptions(FixtureModel("llama")), [&](LoadedRank& rank) -> absl::Status {
          RETURN_IF_ERROR(rank.driver.Generate(0, Prompt(30, 5), Seeded(1), 24, 128));
          if (!rank.is_first()) return absl::OkStatus();
          if (world == 1) at_one = rank.driver.SampledIds(0);
          EXPECT_EQ(rank.driver.SampledIds(0), at_one);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

v1::Sampling WithPromptLogprobs(std::uint32_t count) {
  v1::Sampling sampling = Greedy();
  sampling.set_prompt_logprobs(count);
  return sampling;
}

TEST(Executor, PromptLogprobsAreThoseOfTheLogitsInChunksOfAnySize) {
  const std::vector<std::uint32_t> prompt = Prompt(60, 2);
  RunAtSeveralDegrees([&](LoadedRank& rank) -> absl::Status {
    std::string expected;
    for (const std::uint32_t chunk : {16u, 1u, 5u}) {  // 16 logit rows are the limit
      RETURN_IF_ERROR(rank.driver.Generate(0, prompt, WithPromptLogprobs(2), 1, chunk));
      const std::vector<v1::SampledToken>& tokens = rank.driver.prompt_tokens(0);
      EXPECT_EQ(tokens.size(), prompt.size() - 1);
      for (std::size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i].token_id(), prompt[i + 1]);
      if (chunk == 16) expected = TextOf(tokens);
      EXPECT_EQ(TextOf(tokens), expected) << "chunks of " << chunk;
      rank.driver.Release(0);
    }
    // What is sampled after a prefix has the same distribution: its likeliest tokens are the same, bit for bit.
    RETURN_IF_ERROR(rank.driver.Generate(1, prompt, WithPromptLogprobs(2), 1, 16));
    for (const std::size_t size : {1u, 16u, 17u, 59u}) {
      const std::vector<std::uint32_t> prefix(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(size));
      RETURN_IF_ERROR(rank.driver.Generate(0, prefix, GreedyWithLogprobs(2), 1, 128));
      const v1::SampledToken& of_prompt = rank.driver.prompt_tokens(1)[size - 1];
      const v1::SampledToken& sampled = rank.driver.sampled(0)[0];
      EXPECT_EQ(of_prompt.top(0).ShortDebugString(), sampled.top(0).ShortDebugString());
      EXPECT_EQ(of_prompt.top(1).ShortDebugString(), sampled.top(1).ShortDebugString());
      EXPECT_LE(of_prompt.logprob(), sampled.logprob());
      rank.driver.Release(0);
    }
    return absl::OkStatus();
  });
}

TEST(Executor, GoesOnBehindBlocksThatAnotherSlotComputed) {
  const std::vector<std::uint32_t> prompt = Prompt(50, 4);
  v1::Sampling sampling = Seeded(5);
  sampling.set_prompt_logprobs(1);
  RunAtSeveralDegrees([&](LoadedRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.driver.Generate(0, prompt, sampling, 8, 16));
    for (const std::uint32_t num_computed : {16u, 48u}) {
      rank.driver.AdmitBehind(0, num_computed, 3, prompt, sampling);
      std::uint32_t left = static_cast<std::uint32_t>(prompt.size()) - num_computed;
      for (; left > 0; left -= std::min(left, 16u)) {
        RETURN_IF_ERROR(rank.driver.Step({{3, std::min(left, 16u)}}).status());
      }
      while (rank.driver.sampled(3).size() < 8) RETURN_IF_ERROR(rank.driver.Step({{3, 1}}).status());
      EXPECT_EQ(TextOf(rank.driver.sampled(3)), TextOf(rank.driver.sampled(0)));
      const std::vector<v1::SampledToken>& all = rank.driver.prompt_tokens(0);
      EXPECT_EQ(TextOf(rank.driver.prompt_tokens(3)), TextOf({all.begin() + num_computed, all.end()}));
      rank.driver.Release(3);
    }
    return absl::OkStatus();
  });
}

TEST(Executor, ASequenceWithoutATokenLeftFailsAloneAndItsNextStepIsStillValid) {
  v1::Sampling nothing = Greedy();
  for (std::uint32_t id = 0; id < 192; ++id) nothing.add_bad_words()->add_ids(id);
  RunAtSeveralDegrees([&](LoadedRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.driver.Generate(0, Prompt(9, 1), Seeded(1), 3, 128));
    const std::string alone = TextOf(rank.driver.sampled(0));
    rank.driver.Release(0);
    rank.driver.Admit(0, Prompt(9, 1), Seeded(1));
    rank.driver.Admit(1, Prompt(7, 2), nothing);
    ASSIGN_OR_RETURN(const v1::StepResult result, rank.driver.Step({{1, 7}, {0, 9}}));
    EXPECT_EQ(result.slots_size(), 2);
    EXPECT_EQ(result.slots(0).slot(), 1u);
    EXPECT_EQ(result.slots(0).tokens_size(), 0);
    EXPECT_EQ(result.slots(0).error().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(result.slots(0).error().message(), HasSubstr("no token is left to choose at position 7"));
    EXPECT_FALSE(result.slots(1).has_error());
    RETURN_IF_ERROR(rank.driver.Step({{1, 1}, {0, 1}}).status());  // was on its way when the error was found
    rank.driver.Release(1);
    RETURN_IF_ERROR(rank.driver.Step({{0, 1}}).status());
    EXPECT_EQ(TextOf(rank.driver.sampled(0)), alone);
    rank.driver.Release(0);
    return absl::OkStatus();
  });
}

TEST(Executor, ReportsWhatItHolds) {
  const auto communicator = MakeSingleRankCommunicator();
  LoadProgress progress;
  const auto executor = Executor::Load(SmallOptions(FixtureModel("llama")), *communicator, progress);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const ExecutorSizes sizes = (*executor)->sizes();
  EXPECT_GT(progress.total_bytes, 0u);
  EXPECT_EQ(progress.loaded_bytes, progress.total_bytes);
  EXPECT_EQ(sizes.bytes_read, progress.total_bytes);  // float32 in the file and here
  EXPECT_GE(sizes.weight_bytes, progress.total_bytes);
  // A block: 3 layers · 2 (k, v) · 2 heads · 16 · 16 tokens · 4 bytes.
  EXPECT_EQ(sizes.num_kv_blocks, (std::vector<std::uint32_t>{(4u << 20) / 12288}));
  EXPECT_EQ(sizes.kv_cache_bytes, sizes.num_kv_blocks[0] * 12288u);
}

TEST(Executor, AStepWithoutWorkIsAnEmptyResult) {
  const auto communicator = MakeSingleRankCommunicator();
  LoadProgress progress;
  const auto executor = Executor::Load(SmallOptions(FixtureModel("llama")), *communicator, progress);
  ASSERT_TRUE(executor.ok()) << executor.status();
  v1::Step step;
  step.set_number(1);
  const auto result = (*executor)->Run(step);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->step(), 1u);
  EXPECT_EQ(result->slots_size(), 0);
  EXPECT_TRUE((*executor)->GatherLogits()->empty());
}

absl::Status LoadStatus(const ExecutorOptions& options, int world = 1) {
  return RunLoadedRanks(world, options, [](LoadedRank&) { return absl::OkStatus(); });
}

TEST(Executor, RefusesADegreeThatDoesNotFit) {
  const absl::Status status = LoadStatus(SmallOptions(FixtureModel("llama")), 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1, 2, 4"));
}

TEST(Executor, RefusesOptionsByName) {
  const ExecutorOptions good = SmallOptions(FixtureModel("llama"));
  const auto message = [&](auto change) {
    ExecutorOptions options = good;
    change(options);
    return std::string(LoadStatus(options).message());
  };
  EXPECT_THAT(message([](auto& o) { o.max_model_len = 0; }), HasSubstr("max_model_len is 0"));
  EXPECT_THAT(message([](auto& o) { o.max_num_seqs = 0; }), HasSubstr("max_num_seqs is 0"));
  EXPECT_THAT(message([](auto& o) { o.max_num_batched_tokens = 0; }), HasSubstr("max_num_batched_tokens is 0"));
  EXPECT_THAT(message([](auto& o) { o.max_logit_rows = 7; }),
              HasSubstr("max_logit_rows is 7; it must be at least max_num_seqs, 8"));
  EXPECT_THAT(message([](auto& o) { o.num_threads = 0; }), HasSubstr("num_threads is 0"));
  EXPECT_THAT(message([](auto& o) { o.kv_block_tokens = 129; }),
              HasSubstr("kv_block_tokens is 129; it must be in [1, 128]"));
  EXPECT_THAT(message([](auto& o) { o.dtype = sharding::DType::kF16; }), HasSubstr("dtype is F16"));
  EXPECT_THAT(message([](auto& o) { o.kv_cache_bytes = 100; }), HasSubstr("may only take 100"));
  EXPECT_THAT(message([](auto& o) {
                o.plan_rules = {{"model.layers.*.mlp.nothing", "colwise"}};
              }),
              HasSubstr("nothing"));
  EXPECT_THAT(message([](auto& o) { o.model_path = "/nowhere"; }), HasSubstr("/nowhere"));
}

struct PlanCase {
  std::string name;
  std::string model;
  int world;
  std::map<std::string, std::string> rules;
};

// Plans whose layouts change where the family's do not: gathers, scatters, slices, sums left open.
class Plans : public testing::TestWithParam<PlanCase> {};

TEST_P(Plans, ChangeNothingButTheLayouts) {
  const GoldenCase golden = ReadGoldenCases(GetParam().model)[0];
  ExecutorOptions options = SmallOptions(FixtureModel(GetParam().model));
  options.plan_rules = GetParam().rules;
  const absl::Status status = RunLoadedRanks(GetParam().world, options, [&](LoadedRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.driver.Generate(0, golden.prompt, GreedyWithLogprobs(), 1, 128));
    ASSIGN_OR_RETURN(const std::vector<float> logits, rank.executor.GatherLogits());
    EXPECT_EQ(logits.size(), golden.last_logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], golden.last_logits[i], 1e-4);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

std::map<std::string, std::string> InEachLayer(const std::string& strategy, const std::vector<std::string>& modules) {
  std::map<std::string, std::string> rules;
  for (const std::string& module : modules) rules["model.layers.*." + module] = strategy;
  return rules;
}

INSTANTIATE_TEST_SUITE_P(
    All, Plans,
    testing::ValuesIn(std::vector<PlanCase>{
        {"head_gathered", "llama", 2, {{"lm_head", "colwise_gather_output"}}},
        {"head_replicated", "llama_bias", 3, {{"lm_head", "replicate"}}},
        {"embedding_cut", "llama_bias", 3, {{"model.embed_tokens", "embedding_rowwise"}}},
        {"embedding_whole", "llama_bias", 3, {{"model.embed_tokens", "replicate"}}},
        {"mlp_replicated", "llama_bias", 3,
         InEachLayer("replicate", {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})},
        {"mlp_gathered", "llama_bias", 3, InEachLayer("colwise_gather_output", {"mlp.gate_proj", "mlp.up_proj"})},
        {"attention_replicated", "llama_bias", 3,
         InEachLayer("replicate", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"})},
    }),
    [](const testing::TestParamInfo<PlanCase>& c) { return c.param.name; });

TEST(Executor, Bfloat16StaysNearFloat32) {
  const std::vector<GoldenCase> cases = ReadGoldenCases("text_llama");
  for (int world : {1, 2}) {
    ExecutorOptions options = SmallOptions(FixtureModel("text_llama"));
    options.dtype = sharding::DType::kBF16;
    const absl::Status status = RunLoadedRanks(world, options, [&](LoadedRank& rank) -> absl::Status {
      RETURN_IF_ERROR(rank.driver.Generate(0, cases[0].prompt, GreedyWithLogprobs(2), 1, 128));
      ASSIGN_OR_RETURN(const std::vector<float> logits, rank.executor.GatherLogits());
      double sum = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) sum += std::abs(logits[i] - cases[0].last_logits[i]);
      // These tiny models stray by 0.04 to 0.6 (fixtures' README); an error of layout strays by the logits' own size.
      EXPECT_LT(sum / static_cast<double>(logits.size()), 0.3);
      EXPECT_GT(sum, 0);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace trireme::worker
