#include "sharding/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sharding/plan/module_pattern.h"
#include "sharding/program/program_builder.h"

namespace trireme::sharding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Program TwoLayers() {
  const Axis axis = SingleBlock(4, 1, Division::kUneven, "features");
  ProgramBuilder builder({});
  ValueId x = builder.Embed("model.embed_tokens", axis, axis);
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    x = builder.RmsNorm(layer + "norm", x, 1e-5f);
    x = builder.Linear(layer + "w1", x, axis, false);
    x = builder.GatedActivation(layer + "mlp", x, x, Activation::kSilu);
  }
  return std::move(builder).Finish(x);
}

absl::StatusOr<ResolvedPlan> Resolve(const Plan& plan) {
  return ResolvedPlan::Resolve(plan, TwoLayers(), StrategyRegistry::BuiltIn());
}

std::string StrategyOf(const ResolvedPlan& plan, std::string_view module) {
  const Strategy* strategy = plan.ForModule(module);
  return strategy == nullptr ? "none" : std::string(strategy->name());
}

TEST(GeneralizeModuleName, ReplacesWholeNumbersOnly) {
  EXPECT_EQ(GeneralizeModuleName("model.layers.12.mlp.w1"), "model.layers.*.mlp.w1");
  EXPECT_EQ(GeneralizeModuleName("h.0"), "h.*");
  EXPECT_EQ(GeneralizeModuleName("0"), "*");
  EXPECT_EQ(GeneralizeModuleName("fc2.4h"), "fc2.4h");
  EXPECT_EQ(GeneralizeModuleName(""), "");
}

TEST(ResolvedPlan, FindsTheRuleOfEachModule) {
  const auto plan = Resolve({.rules = {{"model.layers.*.w1", "colwise"}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(StrategyOf(*plan, "model.layers.0.w1"), "colwise");
  EXPECT_EQ(StrategyOf(*plan, "model.layers.1.w1"), "colwise");
  EXPECT_EQ(StrategyOf(*plan, "model.layers.0.norm"), "replicate");
  EXPECT_EQ(StrategyOf(*plan, "model.layers.0.mlp"), "none");
  EXPECT_EQ(StrategyOf(*plan, ""), "none");
}

TEST(ResolvedPlan, PrefersTheRuleOfOneLayer) {
  const auto plan = Resolve({.rules = {{"model.layers.*.w1", "colwise"}, {"model.layers.1.w1", "rowwise"}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(StrategyOf(*plan, "model.layers.0.w1"), "colwise");
  EXPECT_EQ(StrategyOf(*plan, "model.layers.1.w1"), "rowwise");
}

TEST(ResolvedPlan, NamesAllThatIsWrongAtOnce) {
  const absl::Status status = Resolve({.rules = {{"model.layers.*.w1", "column"},
                                                 {"layers.*.w1", "colwise"},
                                                 {"model.layers.7.w1", "colwise"},
                                                 {"model.layers.*.mlp", "colwise"}}})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no strategy \"column\" is registered"), HasSubstr("\"colwise_gather_output\""),
                    HasSubstr("rule \"layers.*.w1\" matches no module"), HasSubstr("are \"model.layers.*.w1\""),
                    HasSubstr("\"model.layers.7.w1\" matches no module"),
                    HasSubstr("\"model.layers.*.mlp\" matches no module")));
}

TEST(ResolvedPlan, LetsAStarMatchNumbersOnly) {
  EXPECT_FALSE(Resolve({.rules = {{"model.*.0.w1", "colwise"}}}).ok());
  EXPECT_FALSE(Resolve({.rules = {{"model.layers.*", "colwise"}}}).ok());
  EXPECT_FALSE(Resolve({.rules = {{"", "colwise"}}}).ok());
}

TEST(MergePlans, PutsTheUsersRulesOverTheBuiltInOnes) {
  const Plan merged =
      MergePlans({.rules = {{"a", "colwise"}, {"b", "rowwise"}}}, {.rules = {{"b", "replicate"}, {"c", "colwise"}}});
  EXPECT_EQ(merged.rules, (std::map<std::string, std::string>{{"a", "colwise"}, {"b", "replicate"}, {"c", "colwise"}}));
}

}  // namespace
}  // namespace trireme::sharding
