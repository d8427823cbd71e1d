#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sharding/strategy/strategy.h"

namespace trireme::sharding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Parameter Make(std::vector<std::int64_t> shape) {
  Parameter parameter{.name = "p", .axes = {}};
  for (const std::int64_t extent : shape) {
    parameter.axes.push_back(SingleBlock(extent, 1, Division::kUneven, "features"));
  }
  return parameter;
}

std::string PlacementBy(std::string_view strategy, const ParameterRole& role) {
  return ToString(StrategyRegistry::BuiltIn().Find(strategy)->ShardParameter(role));
}

TEST(StrategyRegistry, ListsTheBuiltInOnes) {
  EXPECT_THAT(StrategyRegistry::BuiltIn().Names(), ElementsAre("colwise", "colwise_gather_output", "embedding_rowwise",
                                                               "packed_colwise", "replicate", "rowwise"));
}

TEST(StrategyRegistry, TakesAUsersStrategyOnce) {
  class Mine : public Strategy {
   public:
    std::string_view name() const override { return "mine"; }
  };
  StrategyRegistry registry = StrategyRegistry::BuiltIn();
  EXPECT_TRUE(registry.Register(std::make_shared<Mine>()).ok());
  EXPECT_NE(registry.Find("mine"), nullptr);
  EXPECT_EQ(registry.Register(std::make_shared<Mine>()).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.Find("mine")->OutputLayout(), Placement(Replicate{}));
}

TEST(StrategyRegistry, FindsNothingUnderAnUnknownName) {
  EXPECT_EQ(StrategyRegistry::BuiltIn().Find("column"), nullptr);
  EXPECT_EQ(StrategyRegistry::BuiltIn().Find(""), nullptr);
}

TEST(BuiltInStrategies, CutTheDimensionThatTransformersCuts) {
  const Parameter matrix = Make({8, 6}), vector = Make({8});
  EXPECT_EQ(PlacementBy("colwise", {.parameter = matrix}), "shard(0)");
  EXPECT_EQ(PlacementBy("colwise", {.parameter = vector, .is_bias = true}), "shard(0)");
  EXPECT_EQ(PlacementBy("colwise", {.parameter = matrix, .is_embedding = true}), "shard(1)");
  EXPECT_EQ(PlacementBy("rowwise", {.parameter = matrix}), "shard(1)");
  EXPECT_EQ(PlacementBy("rowwise", {.parameter = vector, .is_bias = true}), "replicate");
  EXPECT_EQ(PlacementBy("rowwise", {.parameter = vector}), "shard(0)");
  EXPECT_EQ(PlacementBy("rowwise", {.parameter = matrix, .is_embedding = true}), "shard(0)");
  EXPECT_EQ(PlacementBy("embedding_rowwise", {.parameter = matrix, .is_embedding = true}), "shard(0)");
  EXPECT_EQ(PlacementBy("packed_colwise", {.parameter = matrix}), "strided_shard(0)");
  EXPECT_EQ(PlacementBy("packed_colwise", {.parameter = vector, .is_bias = true}), "strided_shard(0)");
  EXPECT_EQ(PlacementBy("replicate", {.parameter = matrix}), "replicate");
  EXPECT_EQ(PlacementBy("colwise", {.parameter = Make({4, 8, 6})}), "shard(1)");
  EXPECT_EQ(PlacementBy("rowwise", {.parameter = Make({4, 8, 6})}), "shard(2)");
}

TEST(ColwiseGatherOutput, RefusesAnOutputThatDoesNotDivide) {
  const Parameter matrix = Make({8, 6});
  const auto strategy = StrategyRegistry::BuiltIn().Find("colwise_gather_output");
  EXPECT_TRUE(strategy->ValidateParameter({.parameter = matrix}, 4).ok());
  EXPECT_THAT(std::string(strategy->ValidateParameter({.parameter = matrix}, 3).message()), HasSubstr("8 features"));
  EXPECT_TRUE(strategy->ValidateParameter({.parameter = matrix, .is_embedding = true}, 3).ok());
}

}  // namespace
}  // namespace trireme::sharding
