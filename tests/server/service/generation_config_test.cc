#include "server/service/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace trireme::server {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GenerationConfig Config(const char* generation_config, const char* config = "{}") {
  return {.generation_config = json::parse(generation_config), .config = json::parse(config), .vocab_size = 100};
}

TEST(GenerationConfig, DoesNothingWhereItSaysNothing) {
  const SamplingDefaults defaults = *Config("{}").ReadSamplingDefaults();
  EXPECT_EQ(defaults.temperature, 1);
  EXPECT_EQ(defaults.top_k, 0u);
  EXPECT_EQ(defaults.top_p, 1);
  EXPECT_EQ(defaults.min_p, 0);
  EXPECT_EQ(defaults.typical_p, 1);
  EXPECT_EQ(defaults.repetition_penalty, 1);
  EXPECT_THAT(*Config("{}").EosTokenIds(), IsEmpty());
  EXPECT_FALSE(Config("{}").BosTokenId()->has_value());
}

TEST(GenerationConfig, GivesTheDefaultsOfSampling) {
  const SamplingDefaults defaults =
      *Config(R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95})").ReadSamplingDefaults();
  EXPECT_EQ(defaults.temperature, 0.6f);
  EXPECT_EQ(defaults.top_k, 20u);
  EXPECT_EQ(defaults.top_p, 0.95f);
}

TEST(GenerationConfig, GivesTheDefaultsOfPenaltyAndFilters) {
  const SamplingDefaults defaults =
      *Config(R"({"repetition_penalty": 1.1, "min_p": 0.05, "typical_p": 0.9})").ReadSamplingDefaults();
  EXPECT_EQ(defaults.repetition_penalty, 1.1f);
  EXPECT_EQ(defaults.min_p, 0.05f);
  EXPECT_EQ(defaults.typical_p, 0.9f);
}

TEST(GenerationConfig, IsGreedyIfSamplingIsOff) {
  EXPECT_EQ(Config(R"({"do_sample": false, "temperature": 0.6})").ReadSamplingDefaults()->temperature, 0);
}

TEST(GenerationConfig, KeepsAllTokensForTopKBelowOne) {
  EXPECT_EQ(Config(R"({"top_k": -1})").ReadSamplingDefaults()->top_k, 0u);
  EXPECT_EQ(Config(R"({"top_k": null})").ReadSamplingDefaults()->top_k, 0u);
}

TEST(GenerationConfig, RefusesSettingsThatAreNone) {
  for (const char* text : {R"({"temperature": "hot"})", R"({"temperature": -1})", R"({"top_p": 0})",
                           R"({"top_p": 1.5})", R"({"top_k": 1e30})"}) {
    const absl::Status status = Config(text).ReadSamplingDefaults().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("generation_config: t")) << text;
  }
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {R"({"min_p": -0.5})", "min_p is -0.5, expected from 0 to 1"},
           {R"({"min_p": 2})", "min_p is 2, expected at most 1"},
           {R"({"typical_p": 0.0})", "typical_p is 0.0, expected more than 0"},
           {R"({"repetition_penalty": 0})", "repetition_penalty is 0, expected from 0.01 to 100"}}) {
    EXPECT_THAT(std::string(Config(text.c_str()).ReadSamplingDefaults().status().message()), HasSubstr(message));
  }
}

TEST(GenerationConfig, ReadsOneEndOfSequenceOrSeveral) {
  EXPECT_THAT(*Config(R"({"eos_token_id": 2})").EosTokenIds(), ElementsAre(2));
  EXPECT_THAT(*Config(R"({"eos_token_id": [9, 2]})").EosTokenIds(), ElementsAre(2, 9));
}

TEST(GenerationConfig, GoesBeforeConfig) {
  EXPECT_THAT(*Config(R"({"eos_token_id": 2})", R"({"eos_token_id": 3})").EosTokenIds(), ElementsAre(2));
  EXPECT_THAT(*Config("{}", R"({"eos_token_id": 3, "bos_token_id": 1})").EosTokenIds(), ElementsAre(3));
  EXPECT_EQ(*Config("{}", R"({"bos_token_id": 1})").BosTokenId(), 1u);
  EXPECT_EQ(*Config(R"({"pad_token_id": 5})").PadTokenId(), 5u);
}

TEST(GenerationConfig, RefusesIdsThatAreNone) {
  for (const char* text :
       {R"({"eos_token_id": -1})", R"({"eos_token_id": ["x"]})", R"({"eos_token_id": 4294967296})"}) {
    EXPECT_EQ(Config(text).EosTokenIds().status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(GenerationConfig, RefusesIdsBeyondTheVocabulary) {
  EXPECT_THAT(*Config(R"({"eos_token_id": [99, 0]})").EosTokenIds(), ElementsAre(0, 99));
  EXPECT_EQ(Config(R"({"eos_token_id": [2, 100]})").EosTokenIds().status().message(),
            "generation_config: eos_token_id is [2,100], expected token ids below 100");
  EXPECT_EQ(Config("{}", R"({"bos_token_id": 100})").BosTokenId().status().message(),
            "config: bos_token_id is 100, expected token ids below 100");
}

TEST(GenerationConfig, BlamesTheFileThatIsWrong) {
  EXPECT_EQ(Config("{}", R"({"eos_token_id": "x"})").EosTokenIds().status().message(),
            "config: eos_token_id is \"x\", expected token ids below 100");
}

TEST(GenerationConfig, TakesAPaddingIdBeyondTheVocabulary) {
  EXPECT_EQ(*Config(R"({"pad_token_id": 100})").PadTokenId(), 100u);
}

TEST(GenerationConfig, NamesSettingsThatAreNotServed) {
  EXPECT_THAT(Config(R"({"repetition_penalty": 1.1, "num_beams": 4, "no_repeat_ngram_size": 0})").UnservedSettings(),
              ElementsAre("num_beams: 4"));
}

}  // namespace
}  // namespace trireme::server
