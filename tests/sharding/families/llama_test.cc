#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sharding/families/families.h"

namespace trireme::sharding {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

json ReadFixture(const std::string& path) {
  std::ifstream file(std::string(TRIREME_FIXTURES) + "/hf/" + path);
  return json::parse(file);
}

absl::StatusOr<DecoderSpec> SpecOf(const json& config) {
  const absl::StatusOr<const Family*> family = FindFamily(config);
  if (!family.ok()) return family.status();
  return (*family)->spec_from_config(config);
}

json Minimal() { return {{"model_type", "llama"}}; }

std::string Refusal(const json& changes) {
  json config = Minimal();
  config.update(changes);
  return std::string(SpecOf(config).status().message());
}

TEST(LlamaFamily, ReadsBothSpellingsAlike) {
  for (const std::string name : {"llama", "llama_bias", "llama_llama3", "text_llama"}) {
    const auto v5 = SpecOf(ReadFixture(name + "/config.json"));
    const auto v4 = SpecOf(ReadFixture(name + "/config.v4.json"));
    ASSERT_TRUE(v5.ok()) << v5.status();
    ASSERT_TRUE(v4.ok()) << v4.status();
    EXPECT_EQ(v5->rope_tables[0].inv_freq, v4->rope_tables[0].inv_freq);
    EXPECT_EQ(v5->layers.size(), v4->layers.size());
    EXPECT_EQ(v5->tied_head, v4->tied_head);
    EXPECT_EQ(v5->layers[0].attention.qkv_bias, v4->layers[0].attention.qkv_bias);
  }
}

TEST(LlamaFamily, ReadsEachKey) {
  const auto spec = SpecOf(ReadFixture("llama_bias/config.json"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->hidden, 48);
  EXPECT_EQ(spec->vocabulary, 160);
  EXPECT_EQ(spec->max_positions, 256);
  EXPECT_FALSE(spec->tied_head);
  ASSERT_EQ(spec->layers.size(), 2u);
  EXPECT_EQ(spec->layers[1].attention.num_heads, 6);
  EXPECT_EQ(spec->layers[1].attention.num_kv_heads, 3);
  EXPECT_EQ(spec->layers[1].attention.head_dim, 16);
  EXPECT_FLOAT_EQ(spec->layers[1].attention.scale, 0.25f);
  EXPECT_TRUE(spec->layers[1].attention.output_bias);
  EXPECT_TRUE(spec->layers[1].mlp.bias);
  EXPECT_EQ(spec->layers[1].mlp.intermediate, 96);
  EXPECT_FLOAT_EQ(spec->final_norm.epsilon, 5e-4f);
}

TEST(LlamaFamily, TakesTransformersDefaultsForAbsentAndNullKeys) {
  for (const json& config : {Minimal(), json{{"model_type", "llama"},
                                             {"head_dim", nullptr},
                                             {"num_key_value_heads", nullptr},
                                             {"rope_scaling", nullptr}}}) {
    const auto spec = SpecOf(config);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->hidden, 4096);
    EXPECT_EQ(spec->vocabulary, 32000);
    EXPECT_EQ(spec->max_positions, 2048);
    EXPECT_EQ(spec->layers.size(), 32u);
    EXPECT_EQ(spec->layers[0].attention.num_kv_heads, 32);
    EXPECT_EQ(spec->layers[0].attention.head_dim, 128);
    EXPECT_EQ(spec->layers[0].mlp.intermediate, 11008);
    EXPECT_FLOAT_EQ(spec->layers[0].mlp_norm.epsilon, 1e-6f);
    EXPECT_FLOAT_EQ(spec->rope_tables[0].inv_freq[63], static_cast<float>(std::pow(10000.0, -126.0 / 128)));
  }
}

TEST(LlamaFamily, PrefersRopeScalingAndItsOwnTheta) {
  const auto theta = [](const json& changes) {
    json config = Minimal();
    config.update(changes);
    const auto spec = SpecOf(config);
    return spec.ok() ? std::pow(spec->rope_tables[0].inv_freq[1], -64.0) : -1;
  };
  EXPECT_NEAR(theta({{"rope_theta", 500.0}}), 500, 0.1);
  EXPECT_NEAR(theta({{"rope_theta", 500.0}, {"rope_parameters", {{"rope_theta", 700.0}}}}), 700, 0.1);
  EXPECT_NEAR(theta({{"rope_theta", 500}, {"rope_parameters", {{"rope_type", "default"}}}}), 500, 0.1);
  EXPECT_NEAR(theta({{"rope_parameters", {{"rope_theta", 700.0}}},
                     {"rope_scaling", {{"type", "default"}, {"rope_theta", 900.0}}}}),
              900, 0.2);
}

TEST(LlamaFamily, RefusesWhatItCannotCompute) {
  EXPECT_THAT(Refusal({{"hidden_act", "gelu"}}), HasSubstr("hidden_act is \"gelu\""));
  EXPECT_THAT(Refusal({{"pretraining_tp", 2}}), HasSubstr("pretraining_tp is 2"));
  EXPECT_THAT(Refusal({{"sliding_window", 4096}}), HasSubstr("sliding_window is 4096"));
  EXPECT_THAT(Refusal({{"rope_interleaved", true}}), HasSubstr("rope_interleaved"));
  EXPECT_THAT(Refusal({{"partial_rotary_factor", 0.5}}), HasSubstr("partial_rotary_factor is 0.5"));
  EXPECT_THAT(Refusal({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}), HasSubstr("rope type linear"));
  EXPECT_THAT(Refusal({{"rope_parameters", {{"rope_type", "yarn"}}}}), HasSubstr("rope type yarn"));
  EXPECT_THAT(Refusal({{"quantization_config", {{"quant_method", "fp8"}}}}), HasSubstr("quantization_config"));
  EXPECT_THAT(Refusal({{"num_hidden_layers", 1}, {"layer_types", {"sliding_attention"}}}), HasSubstr("layer_types"));
}

TEST(LlamaFamily, AcceptsIndifferentValuesOfThoseKeys) {
  EXPECT_THAT(Refusal({{"pretraining_tp", 1},
                       {"sliding_window", nullptr},
                       {"rope_interleaved", false},
                       {"is_llama_config", true},
                       {"partial_rotary_factor", 1.0},
                       {"num_hidden_layers", 2},
                       {"transformers.js_config", {{"dtype", "q4"}}},
                       {"layer_types", {"full_attention", "full_attention"}}}),
              IsEmpty());
}

TEST(LlamaFamily, NamesAllProblemsAtOnce) {
  EXPECT_THAT(
      Refusal({{"hidden_size", -1},
               {"num_attention_heads", 5},
               {"num_key_value_heads", 2},
               {"attention_bias", "yes"},
               {"rms_norm_eps", 0},
               {"surprise", 1},
               {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}, {"beta_fast", 32}}}}),
      AllOf(HasSubstr("hidden_size is -1"), HasSubstr("5 is not a multiple of num_key_value_heads 2"),
            HasSubstr("attention_bias is \"yes\""), HasSubstr("rms_norm_eps is 0"), HasSubstr("unknown key surprise"),
            HasSubstr("llama3 without low_freq_factor"), HasSubstr("unknown key rope_scaling.beta_fast")));
}

TEST(LlamaFamily, RefusesSizesThatCannotBe) {
  EXPECT_THAT(Refusal({{"hidden_size", 100}, {"num_attention_heads", 3}}), HasSubstr("there is no head_dim"));
  EXPECT_THAT(Refusal({{"head_dim", 15}}), HasSubstr("head_dim 15 is odd"));
  EXPECT_THAT(Refusal({{"num_hidden_layers", 0}}), HasSubstr("num_hidden_layers is 0"));
  EXPECT_THAT(Refusal({{"vocab_size", 1e30}}), HasSubstr("vocab_size"));
  EXPECT_THAT(Refusal({{"hidden_size", 18446744073709551615u}}), HasSubstr("hidden_size"));
  EXPECT_THAT(Refusal({{"hidden_size", 64.5}}), HasSubstr("hidden_size is 64.5"));
}

TEST(FindFamily, NamesWhatItGotAndWhatThereIs) {
  EXPECT_THAT(std::string(FindFamily({{"model_type", "mamba"}}).status().message()),
              AllOf(HasSubstr("\"mamba\""), HasSubstr("llama")));
  EXPECT_THAT(std::string(FindFamily(json::object()).status().message()), HasSubstr("null"));
  EXPECT_THAT(std::string(FindFamily(json::array()).status().message()), HasSubstr("not a JSON object"));
  EXPECT_THAT(std::string(FindFamily({{"model_type", "llama"}, {"architectures", {"LlamaForSequenceClassification"}}})
                              .status()
                              .message()),
              AllOf(HasSubstr("LlamaForSequenceClassification"), HasSubstr("only LlamaForCausalLM")));
}

TEST(LlamaFamily, CutsATiedEmbeddingOnTheVocabulary) {
  const auto rule = [](bool tied) {
    DecoderSpec spec;
    spec.tied_head = tied;
    return (*FindFamily(Minimal()))->plan(spec).rules.at("model.embed_tokens");
  };
  EXPECT_EQ(rule(true), "embedding_rowwise");
  EXPECT_EQ(rule(false), "replicate");
}

}  // namespace
}  // namespace trireme::sharding
