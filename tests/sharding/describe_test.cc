#include "sharding/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sharding/program/small_models.h"

namespace trireme::sharding {
namespace {

using ::testing::ElementsAre;

ProgramDescription DescribeLlama(const nlohmann::json& changes, Rank rank, ElementBytes bytes = {}) {
  const SmallModel model = MakeLlama(changes);
  const absl::StatusOr<CompiledProgram> compiled = Compile(model.program, model.Resolve(), rank);
  CHECK_OK(compiled.status());
  return Describe(*compiled, bytes);
}

const ModuleDescription& Find(const ProgramDescription& description, const std::string& module) {
  return *std::find_if(description.modules.begin(), description.modules.end(),
                       [&](const ModuleDescription& m) { return m.module == module; });
}

TEST(Describe, SaysHowEachModuleIsCut) {
  const ProgramDescription description = DescribeLlama({{"attention_bias", true}}, {5, 6});
  const ModuleDescription& o_proj = Find(description, "model.layers.0.self_attn.o_proj");
  EXPECT_EQ(o_proj.strategy, "rowwise");
  ASSERT_EQ(o_proj.parameters.size(), 2u);
  EXPECT_EQ(o_proj.parameters[0].placement, "shard(1)");
  EXPECT_THAT(o_proj.parameters[0].full_shape, ElementsAre(24, 24));
  EXPECT_THAT(o_proj.parameters[0].local_shape, ElementsAre(24, 4));
  EXPECT_EQ(o_proj.parameters[0].local_bytes, 24 * 4 * 4);
  EXPECT_EQ(o_proj.parameters[1].name, "model.layers.0.self_attn.o_proj.bias");
  EXPECT_EQ(o_proj.parameters[1].placement, "replicate");
  EXPECT_EQ(o_proj.local_bytes, 24 * 4 * 4 + 24 * 4);
  EXPECT_EQ(Find(description, "model.norm").strategy, "replicate");
}

TEST(Describe, ListsCollectivesInOrder) {
  const ProgramDescription description = DescribeLlama({{"tie_word_embeddings", true}}, {0, 3});
  std::vector<std::string> modules;
  for (const CollectiveDescription& collective : description.collectives) {
    EXPECT_EQ(collective.kind, "all_reduce");
    EXPECT_EQ(collective.features, 24);
    modules.push_back(collective.module);
  }
  EXPECT_THAT(modules,
              ElementsAre("model.embed_tokens", "model.layers.0.self_attn.o_proj", "model.layers.0.mlp.down_proj",
                          "model.layers.1.self_attn.o_proj", "model.layers.1.mlp.down_proj"));
}

TEST(Describe, AddsUpToTheWholeModel) {
  // Untied, no biases: replicated are the embedding and the norms.
  const std::int64_t layer = 24 * 24 + 2 * 12 * 24 + 24 * 24 + 3 * 20 * 24;
  const std::int64_t norms = 5 * 24, embedding = 37 * 24, head = 37 * 24;
  std::int64_t cut = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const ProgramDescription description = DescribeLlama(nlohmann::json::object(), {rank, 3});
    EXPECT_EQ(description.replicated_weight_bytes, 4 * (norms + embedding));
    cut += description.weight_bytes - description.replicated_weight_bytes;
  }
  EXPECT_EQ(cut, 4 * (2 * layer + head));
}

// As a table and packed for products, but read once.
TEST(Describe, CountsATiedHeadInBothFormsAndInTheGivenWidth) {
  const ProgramDescription tied = DescribeLlama({{"tie_word_embeddings", true}}, {0, 1}, {.weights = 2, .kv_cache = 2});
  EXPECT_TRUE(Find(tied, "lm_head").parameters[0].shared);
  EXPECT_EQ(Find(tied, "lm_head").local_bytes, 37 * 24 * 2);
  EXPECT_FALSE(Find(tied, "model.embed_tokens").parameters[0].shared);
  EXPECT_EQ(Find(tied, "model.embed_tokens").local_bytes, 37 * 24 * 2);
  EXPECT_EQ(tied.kv_cache_bytes_per_token, 2 * 2 * 3 * 4 * 2);
  EXPECT_EQ(DescribeLlama(nlohmann::json::object(), {0, 6}).kv_cache_bytes_per_token, 2 * 2 * 1 * 4 * 4);
}

TEST(Describe, HasAllInJson) {
  const nlohmann::json json = ToJson(DescribeLlama(nlohmann::json::object(), {2, 3}));
  EXPECT_EQ(json["tp_degree"], 3);
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["logits_vocabulary"], nlohmann::json({26, 37}));
  EXPECT_EQ(json["modules"].back()["module"], "lm_head");
  EXPECT_EQ(json["modules"].back()["parameters"][0]["slices"], nlohmann::json::parse("[[[26, 37]], [[0, 24]]]"));
  EXPECT_EQ(json["collectives"][0]["kind"], "all_reduce");
  EXPECT_EQ(json["collectives"][0]["rows"], "tokens");
}

}  // namespace
}  // namespace trireme::sharding
