#include "sharding/program/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sharding/program/program_builder.h"
#include "tests/sharding/program/small_models.h"
#include "tests/support/reference_program.h"

namespace trireme::sharding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Sums of a few hundred floats, twice per layer, in another order.
constexpr double kTolerance = 2e-5;

const testing::Prompt& SomePrompt() {
  static const testing::Prompt prompt = testing::AllPositions({0, 36, 18, 19, 5, 12, 35});
  return prompt;
}

double DifferenceFromOneRank(const Program& program, const std::vector<CompiledProgram>& ranks) {
  const testing::TensorMap tensors = testing::RandomTensors(program, 7);
  return testing::LargestDifference(testing::RunProgram(program, tensors, SomePrompt()),
                                    testing::RunRanks(ranks, testing::PartsOf(tensors), SomePrompt()));
}

template <typename Kind>
int Count(const CompiledProgram& program) {
  return static_cast<int>(std::count_if(program.ops.begin(), program.ops.end(),
                                        [](const LocalOp& op) { return std::holds_alternative<Kind>(op.kind); }));
}

std::string Refusal(const SmallModel& model, const Plan& overrides, int world) {
  const ResolvedPlan plan = model.Resolve(MergePlans(model.plan, overrides));
  return std::string(Compile(model.program, plan, {0, world}).status().message());
}

TEST(Compile, GivesTheLogitsOfTheProgramAtEveryValidDegree) {
  for (const bool tied : {false, true}) {
    const SmallModel model = MakeLlama({{"tie_word_embeddings", tied}, {"attention_bias", true}, {"mlp_bias", true}});
    const ResolvedPlan plan = model.Resolve();
    EXPECT_THAT(ValidTpDegrees(model.program, plan, 12), ElementsAre(1, 3, 6));
    for (const int world : {1, 3, 6}) {
      const auto ranks = CompileAll(model.program, plan, world);
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      EXPECT_LT(DifferenceFromOneRank(model.program, *ranks), kTolerance) << world;
    }
  }
}

TEST(Compile, ReducesTwicePerLayerAndNotAtAllOnOneRank) {
  const SmallModel model = MakeLlama();
  const auto sharded = Compile(model.program, model.Resolve(), {1, 3});
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  EXPECT_EQ(Count<AllReduce>(*sharded), 4);
  EXPECT_EQ(std::count_if(sharded->ops.begin(), sharded->ops.end(),
                          [](const LocalOp& op) { return CollectiveName(op.kind).has_value(); }),
            4);
  const auto alone = Compile(model.program, model.Resolve(), {0, 1});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->ops.size(), model.program.ops.size());
}

TEST(Compile, ReducesATiedEmbeddingOnceMore) {
  const SmallModel model = MakeLlama({{"tie_word_embeddings", true}});
  EXPECT_EQ(Count<AllReduce>(*Compile(model.program, model.Resolve(), {0, 3})), 5);
}

TEST(Compile, KeepsOneCopyOfATableThatTwoModulesCutAlike) {
  const SmallModel model = MakeLlama({{"tie_word_embeddings", true}});
  const auto copies = [&](const Plan& overrides) {
    const auto compiled = Compile(model.program, model.Resolve(MergePlans(model.plan, overrides)), {1, 3});
    return std::count_if(compiled->parameters.begin(), compiled->parameters.end(),
                         [](const LocalParameter& p) { return p.name == "model.embed_tokens.weight"; });
  };
  EXPECT_EQ(copies({}), 1);
  EXPECT_EQ(copies({.rules = {{"lm_head", "replicate"}}}), 2);
  EXPECT_EQ(copies({.rules = {{"lm_head", "replicate"}, {"model.embed_tokens", "replicate"}}}), 1);
}

TEST(Compile, CutsHeadsAndUnevenAxes) {
  const SmallModel model = MakeLlama({{"attention_bias", true}});
  const auto last = Compile(model.program, model.Resolve(), {5, 6});
  ASSERT_TRUE(last.ok()) << last.status();
  const auto slices = [&](const std::string& name) {
    return std::find_if(last->parameters.begin(), last->parameters.end(),
                        [&](const LocalParameter& p) { return p.name == name; })
        ->slices;
  };
  EXPECT_THAT(slices("model.layers.0.self_attn.q_proj.weight"), ElementsAre(Intervals{{20, 24}}, Intervals{{0, 24}}));
  EXPECT_THAT(slices("model.layers.0.self_attn.k_proj.weight"), ElementsAre(Intervals{{8, 12}}, Intervals{{0, 24}}));
  EXPECT_THAT(slices("model.layers.0.self_attn.k_proj.bias"), ElementsAre(Intervals{{8, 12}}));
  EXPECT_THAT(slices("model.layers.1.self_attn.o_proj.weight"), ElementsAre(Intervals{{0, 24}}, Intervals{{20, 24}}));
  EXPECT_THAT(slices("model.layers.1.self_attn.o_proj.bias"), ElementsAre(Intervals{{0, 24}}));
  // 20 intermediate features over 6 ranks: 4, 4, 4, 4, 4, 0.
  EXPECT_THAT(slices("model.layers.1.mlp.down_proj.weight"), ElementsAre(Intervals{{0, 24}}, Intervals{}));
  EXPECT_EQ(last->logits_vocabulary, (Interval{35, 37}));
  EXPECT_EQ(last->vocabulary, 37);
  ASSERT_EQ(last->kv_groups.size(), 1u);
  EXPECT_EQ(last->kv_groups[0].num_kv_heads, 1);
  EXPECT_EQ(last->kv_groups[0].num_layers, 2);
}

TEST(Compile, AddsARowParallelBiasOnceBehindTheSum) {
  const SmallModel model = MakeLlama({{"attention_bias", true}});
  const auto compiled = Compile(model.program, model.Resolve(), {0, 3});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto reduce = std::find_if(compiled->ops.begin(), compiled->ops.end(),
                                   [](const LocalOp& op) { return std::holds_alternative<AllReduce>(op.kind); });
  EXPECT_EQ(reduce->module, "model.layers.0.self_attn.o_proj");
  EXPECT_EQ(reduce->strategy, "rowwise");
  EXPECT_FALSE(std::get<LocalLinear>((reduce - 1)->kind).bias.has_value());
  EXPECT_TRUE(std::holds_alternative<LocalAddBias>((reduce + 1)->kind));
  EXPECT_EQ(Count<LocalAddBias>(*compiled), 2);
}

TEST(Compile, GathersTheLogitsWhereAPlanSaysSo) {
  const SmallModel model = MakeLlama({{"vocab_size", 39}});
  const ResolvedPlan plan = model.Resolve(MergePlans(model.plan, {.rules = {{"lm_head", "colwise_gather_output"}}}));
  const auto ranks = CompileAll(model.program, plan, 3);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ(Count<AllGather>(ranks->front()), 1);
  EXPECT_EQ((*ranks)[2].logits_vocabulary, (Interval{0, 39}));
  EXPECT_LT(DifferenceFromOneRank(model.program, *ranks), kTolerance);
}

TEST(Compile, NamesAllProblemsAtOnceAndEachOnce) {
  const std::string refusal =
      Refusal(MakeLlama(), {.rules = {{"lm_head", "colwise_gather_output"}, {"model.norm", "colwise"}}}, 4);
  EXPECT_THAT(refusal, AllOf(HasSubstr("6 query heads cannot be divided evenly among 4 ranks "
                                       "(model.layers.*.self_attn.q_proj, model.layers.*.self_attn.o_proj)"),
                             HasSubstr("3 KV heads can neither"), HasSubstr("37 features"), HasSubstr("(model.norm)")));
  EXPECT_EQ(std::count(refusal.begin(), refusal.end(), '\n'), 3);
}

TEST(Compile, RefusesCombinationsThatHaveNoMeaning) {
  const SmallModel model = MakeLlama();
  EXPECT_THAT(Refusal(model, {.rules = {{"model.layers.*.input_layernorm", "colwise"}}}, 3),
              AllOf(HasSubstr("needs its whole row"), HasSubstr("model.layers.*.input_layernorm")));
  EXPECT_THAT(Refusal(model, {.rules = {{"model.layers.*.mlp.gate_proj", "packed_colwise"}}}, 2),
              AllOf(HasSubstr("strided_shard(-1)"), HasSubstr("model.layers.*.mlp")));
  EXPECT_THAT(Refusal(model, {.rules = {{"model.layers.*.mlp.up_proj", "embedding_rowwise"}}}, 3),
              HasSubstr("for embeddings"));
  EXPECT_THAT(Refusal(model, {.rules = {{"model.embed_tokens", "packed_colwise"}}}, 3),
              HasSubstr("for linear modules"));
  EXPECT_THAT(Refusal(model,
                      {.rules = {{"model.layers.1.self_attn.k_proj", "replicate"},
                                 {"model.layers.1.self_attn.q_proj", "replicate"}}},
                      3),
              HasSubstr("shares a cache"));
}

TEST(Compile, PairsPackedBlocksWithPackedBlocksOnly) {
  // gate and up are packed alike, but down's input is cut in one piece.
  EXPECT_THAT(Refusal(MakeLlama(),
                      {.rules = {{"model.layers.*.mlp.gate_proj", "packed_colwise"},
                                 {"model.layers.*.mlp.up_proj", "packed_colwise"}}},
                      3),
              AllOf(HasSubstr("as shard(-1)"), HasSubstr("given as strided_shard(-1)"), HasSubstr("down_proj")));
}

// A strategy made of its hooks.
struct Hooks {
  Placement parameter = Replicate{}, input = Replicate{}, computed = Replicate{}, output = Replicate{};
  Placement bias = Replicate{};
};
class HookStrategy : public Strategy {
 public:
  explicit HookStrategy(const Hooks& hooks) : hooks_(hooks) {}
  std::string_view name() const override { return "hooks"; }
  Placement ShardParameter(const ParameterRole& role) const override {
    return role.is_bias ? hooks_.bias : hooks_.parameter;
  }
  Placement InputLayout() const override { return hooks_.input; }
  Placement ComputedLayout() const override { return hooks_.computed; }
  Placement OutputLayout() const override { return hooks_.output; }

 private:
  Hooks hooks_;
};

// The plan of a small llama with `hooks` for the modules that match `pattern`.
absl::StatusOr<std::vector<CompiledProgram>> CompileWithHooks(const SmallModel& model, const std::string& pattern,
                                                              const Hooks& hooks, int world) {
  StrategyRegistry registry = StrategyRegistry::BuiltIn();
  CHECK_OK(registry.Register(std::make_shared<HookStrategy>(hooks)));
  const auto plan =
      ResolvedPlan::Resolve(MergePlans(model.plan, {.rules = {{pattern, "hooks"}}}), model.program, registry);
  CHECK_OK(plan.status());
  return CompileAll(model.program, *plan, world);
}

TEST(Compile, RefusesAStrategyThatContradictsItself) {
  const SmallModel model = MakeLlama({{"mlp_bias", true}});
  const auto refusal = [&](const Hooks& hooks) {
    return std::string(CompileWithHooks(model, "model.layers.*.mlp.down_proj", hooks, 2 + 1).status().message());
  };
  EXPECT_THAT(refusal({.parameter = Shard{1}, .input = Shard{-1}, .computed = Replicate{}}),
              HasSubstr("shard(-1) → partial"));
  EXPECT_THAT(refusal({.parameter = Replicate{}, .input = Shard{-1}}), HasSubstr("replicate → replicate"));
  EXPECT_THAT(refusal({.parameter = Shard{0}, .computed = Shard{-1}, .output = Shard{-1}}), HasSubstr("bias"));
  EXPECT_THAT(refusal({.parameter = Partial{}}), HasSubstr("cannot be placed as partial"));
  EXPECT_THAT(refusal({.parameter = Shard{2}}), HasSubstr("cannot be placed as shard(2)"));
}

TEST(Compile, ScattersASumWhoseUsersWantShards) {
  const SmallModel model = MakeLlama({{"mlp_bias", true}});
  const auto ranks =
      CompileWithHooks(model, "model.layers.*.mlp.down_proj",
                       {.parameter = Shard{1}, .input = Shard{-1}, .computed = Partial{}, .output = Shard{-1}}, 3);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ(Count<ReduceScatter>(ranks->front()), 2);
  EXPECT_LT(DifferenceFromOneRank(model.program, *ranks), kTolerance);
}

// embed → norm → two row-parallel branches → sum, as in models whose attention and MLP run side by side.
Program ParallelBranches(bool biased, float factor) {
  const Axis hidden = SingleBlock(12, 1, Division::kUneven, "hidden features");
  const Axis vocabulary = SingleBlock(37, 1, Division::kUneven, "vocabulary");
  ProgramBuilder builder({});
  const ValueId h = builder.Embed("embed", vocabulary, hidden);
  const ValueId x = builder.RmsNorm("norm", h, 1e-5f);
  const ValueId a = builder.Linear("a", x, hidden, biased);
  const ValueId b = builder.Linear("b", x, hidden, biased);
  const ValueId sum = builder.Scale(builder.Add("branches", a, b), factor);
  const ValueId out = builder.SelectRows(builder.Add("residual", h, sum));
  return std::move(builder).Finish(builder.Linear("head", out, vocabulary, false));
}

TEST(Compile, ReducesTwoParallelBranchesOnce) {
  for (const bool biased : {false, true}) {
    const Program program = ParallelBranches(biased, 0.5f);
    const auto plan =
        ResolvedPlan::Resolve({.rules = {{"a", "rowwise"}, {"b", "rowwise"}}}, program, StrategyRegistry::BuiltIn());
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const int world : {2, 3, 4, 8}) {
      const auto ranks = CompileAll(program, *plan, world);
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      EXPECT_EQ(Count<AllReduce>(ranks->front()), 1);
      EXPECT_EQ(Count<LocalAddBias>(ranks->front()), biased ? 2 : 0);
      EXPECT_LT(DifferenceFromOneRank(program, *ranks), kTolerance) << world;
    }
  }
}

TEST(Compile, GathersAValueOnceForAllItsUsers) {
  const Program program = ParallelBranches(false, 1);
  const auto plan = ResolvedPlan::Resolve({.rules = {{"embed", "colwise"}}}, program, StrategyRegistry::BuiltIn());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto ranks = CompileAll(program, *plan, 8);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ(Count<AllGather>(ranks->front()), 1);
  EXPECT_LT(DifferenceFromOneRank(program, *ranks), kTolerance);
}

TEST(Compile, CutsAFusedGateUpBlockByBlock) {
  const AxisBlock half{.extent = 10, .unit = 1, .division = Division::kUneven, .what = "intermediate features"};
  const Axis hidden = SingleBlock(12, 1, Division::kUneven, "hidden features");
  ProgramBuilder builder({});
  const ValueId h = builder.Embed("embed", SingleBlock(37, 1, Division::kUneven, "vocabulary"), hidden);
  const ValueId packed = builder.Linear("gate_up", h, Axis{{half, half}}, true);
  const ValueId selected = builder.SelectRows(packed);
  const Program program = std::move(builder).Finish(selected);
  const auto plan =
      ResolvedPlan::Resolve({.rules = {{"gate_up", "packed_colwise"}}}, program, StrategyRegistry::BuiltIn());
  for (const int world : {2, 3, 4, 8}) {
    const auto ranks = CompileAll(program, *plan, world);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    EXPECT_EQ(Count<AllGather>(ranks->front()), 1);
    EXPECT_LT(DifferenceFromOneRank(program, *ranks), kTolerance) << world;
  }
  const auto in_one = ResolvedPlan::Resolve({.rules = {{"gate_up", "colwise"}}}, program, StrategyRegistry::BuiltIn());
  EXPECT_THAT(std::string(Compile(program, *in_one, {0, 2}).status().message()), HasSubstr("packed_colwise"));
}

// A small llama of random sizes.
SmallModel RandomLlama(std::mt19937& random) {
  const auto pick = [&](std::vector<int> choices) { return choices[random() % choices.size()]; };
  const int kv_heads = pick({1, 2, 3, 4});
  return MakeLlama({{"num_key_value_heads", kv_heads},
                    {"num_attention_heads", kv_heads * pick({1, 2, 3, 4})},
                    {"head_dim", pick({2, 4})},
                    {"hidden_size", pick({7, 12, 16})},
                    {"intermediate_size", pick({1, 6, 17, 24})},
                    {"num_hidden_layers", pick({1, 2})},
                    {"vocab_size", pick({37, 40, 48})},
                    {"attention_bias", random() % 2 == 0},
                    {"mlp_bias", random() % 2 == 0},
                    {"tie_word_embeddings", random() % 2 == 0}});
}

// One to three rules changed at random.
Plan RandomPlan(Plan plan, std::mt19937& random) {
  const std::vector<std::string> names = StrategyRegistry::BuiltIn().Names();
  for (unsigned i = 0; i <= random() % 3; ++i) {
    auto rule = plan.rules.begin();
    std::advance(rule, random() % plan.rules.size());
    rule->second = names[random() % names.size()];
  }
  return plan;
}

TEST(Compile, IsRightOrRefusesWhateverThePlan) {
  std::mt19937 random(1);
  int right = 0, refused = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const SmallModel model = RandomLlama(random);
    const Plan plan = RandomPlan(model.plan, random);
    for (const int world : {1, 2, 3, 4, 8, 9}) {
      const auto ranks = CompileAll(model.program, model.Resolve(plan), world);
      if (!ranks.ok()) {
        EXPECT_FALSE(ranks.status().message().empty());
        ++refused;
        continue;
      }
      ++right;
      ASSERT_LT(DifferenceFromOneRank(model.program, *ranks), kTolerance)
          << "trial " << trial << ", world " << world << ": " << nlohmann::json(plan.rules).dump();
    }
  }
  EXPECT_GT(right, 400);
  EXPECT_GT(refused, 400);
}

// The demo model's proportions: 9 query heads, 3 KV heads, widths that 9 does not divide.
TEST(Compile, IsRightAtNineRanks) {
  const SmallModel model = MakeLlama({{"num_attention_heads", 9},
                                      {"num_key_value_heads", 3},
                                      {"intermediate_size", 31},
                                      {"vocab_size", 40},
                                      {"tie_word_embeddings", true}});
  const auto ranks = CompileAll(model.program, model.Resolve(), 9);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ((*ranks)[8].logits_vocabulary.size(), 0);
  EXPECT_LT(DifferenceFromOneRank(model.program, *ranks), kTolerance);
}

TEST(ValidTpDegrees, AreThoseOfTheDemoModel) {
  const SmallModel model = MakeLlama({{"num_hidden_layers", 30},
                                      {"hidden_size", 576},
                                      {"intermediate_size", 1536},
                                      {"num_attention_heads", 9},
                                      {"num_key_value_heads", 3},
                                      {"head_dim", 64},
                                      {"vocab_size", 49152},
                                      {"tie_word_embeddings", true}});
  EXPECT_THAT(ValidTpDegrees(model.program, model.Resolve(), 64), ElementsAre(1, 3, 9));
}

}  // namespace
}  // namespace trireme::sharding
