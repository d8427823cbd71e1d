#include "sharding/families/build_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "sharding/families/families.h"
#include "tests/sharding/program/small_models.h"

namespace trireme::sharding {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> ParameterNames(const Program& program) {
  std::vector<std::string> names;
  for (const Parameter& parameter : program.parameters) names.push_back(parameter.name);
  return names;
}

std::string LowerCaseSource(const std::string& path) {
  std::ifstream file(std::string(TRIREME_FIXTURES) + "/../../" + path);
  std::ostringstream text;
  text << file.rdbuf();
  std::string source = text.str();
  std::transform(source.begin(), source.end(), source.begin(), [](unsigned char c) { return std::tolower(c); });
  return source;
}

TEST(BuildDecoder, KnowsNoFamily) {
  for (const char* path : {"sharding/families/build_decoder.cc", "sharding/families/build_decoder.h",
                           "sharding/program/program_builder.cc", "sharding/program/compile.cc"}) {
    const std::string source = LowerCaseSource(path);
    ASSERT_THAT(source, HasSubstr("namespace trireme")) << path;
    for (const Family& family : Families()) {
      EXPECT_THAT(source, Not(HasSubstr(std::string(family.model_type)))) << path;
    }
    EXPECT_THAT(source, Not(HasSubstr("model_type"))) << path;
  }
}

TEST(BuildDecoder, NamesParametersAsCheckpointsDo) {
  const Program program = MakeLlama({{"attention_bias", true}}).program;
  EXPECT_THAT(ParameterNames(program), Contains("model.layers.1.self_attn.o_proj.bias"));
  EXPECT_THAT(ParameterNames(program), Contains("model.layers.0.post_attention_layernorm.weight"));
  EXPECT_THAT(ParameterNames(program), Contains("lm_head.weight"));
  EXPECT_THAT(ParameterNames(program), Not(Contains("model.layers.0.mlp.up_proj.bias")));
  EXPECT_EQ(program.parameters.size(), 2u * (9 + 4) + 3);
}

TEST(BuildDecoder, UsesTheEmbeddingAsATiedHead) {
  const Program program = MakeLlama({{"tie_word_embeddings", true}}).program;
  EXPECT_THAT(ParameterNames(program), Not(Contains("lm_head.weight")));
  const Op& head = program.ops.back();
  EXPECT_EQ(head.module, "lm_head");
  EXPECT_EQ(std::get<LinearOp>(head.kind).weight, std::get<EmbedOp>(program.ops.front().kind).table);
}

TEST(BuildDecoder, CachesAllLayersInOneGroup) {
  const Program program = MakeLlama({{"num_hidden_layers", 5}}).program;
  ASSERT_EQ(program.kv_groups.size(), 1u);
  EXPECT_EQ(program.kv_groups[0].num_layers, 5);
  EXPECT_EQ(program.kv_groups[0].num_kv_heads, 3);
}

TEST(BuildDecoder, ComputesLogitsOfSampledRowsOnly) {
  const Program program = MakeLlama().program;
  EXPECT_EQ(program.values[program.logits].rows, Rows::kSampled);
  EXPECT_EQ(program.values[program.logits].features.extent(), 37);
}

}  // namespace
}  // namespace trireme::sharding
