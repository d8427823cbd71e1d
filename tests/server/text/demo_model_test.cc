// The demo model's tokenizer and chat template, from its GGUF file, against Transformers' answers.
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "server/text/load_text.h"
#include "sharding/checkpoint/byte_source.h"
#include "sharding/checkpoint/gguf.h"
#include "sharding/checkpoint/gguf_tokenizer_metadata.h"
#include "tests/server/text/text_fixtures.h"

namespace trireme::server {
namespace {

std::string DemoModelPath() {
  if (const char* path = std::getenv("TRIREME_DEMO_MODEL")) return path;
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache/trireme/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

GgufVocabulary VocabularyFrom(const sharding::GgufTokenizerMetadata& metadata) {
  GgufVocabulary vocabulary;
  vocabulary.model = metadata.model;
  vocabulary.pre = metadata.pre.value_or("");
  vocabulary.tokens = metadata.tokens;
  vocabulary.token_types = metadata.token_types;
  vocabulary.scores = metadata.scores;
  vocabulary.merges = metadata.merges;
  vocabulary.bos_token_id = metadata.bos_id;
  vocabulary.eos_token_id = metadata.eos_id;
  vocabulary.unknown_token_id = metadata.unk_id;
  vocabulary.padding_token_id = metadata.pad_id;
  vocabulary.add_bos_token = metadata.add_bos;
  vocabulary.add_eos_token = metadata.add_eos;
  vocabulary.add_space_prefix = metadata.add_space_prefix;
  return vocabulary;
}

class DemoModelTextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = sharding::FileBytes::Open(DemoModelPath());
    if (absl::IsNotFound(file.status())) {
      GTEST_SKIP() << "no demo model (" << file.status() << "); set TRIREME_DEMO_MODEL";
    }
    ASSERT_TRUE(file.ok()) << file.status();
    const auto header = sharding::ParseGguf(**file);
    ASSERT_TRUE(header.ok()) << header.status();
    const auto metadata = sharding::TokenizerFromGguf(header->metadata);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    ASSERT_TRUE(metadata->has_value());
    auto model = LoadTextFromGguf(VocabularyFrom(**metadata), (*metadata)->chat_template);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  TextModel model_{nullptr, nullptr, {}};
  nlohmann::ordered_json golden_ = ReadJsonFixture("smollm2/golden.json");
};

TEST_F(DemoModelTextTest, EncodesAsTheGoldenCases) {
  ASSERT_EQ(golden_["tokenizer_cases"].size(), 10U);
  for (const auto& golden : golden_["tokenizer_cases"]) {
    const std::string text = golden["text"];
    const auto ids = model_.tokenizer()->EncodeIds(text, true);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden["ids"].get<Ids>()) << text;
    EXPECT_EQ(model_.tokenizer()->Decode(*ids, false), text);
  }
}

TEST_F(DemoModelTextTest, PromptsAndAnswersAreThoseOfTheGoldenCases) {
  ASSERT_EQ(golden_["cases"].size(), 5U);
  for (const auto& golden : golden_["cases"]) {
    const bool is_chat = golden["kind"] == "chat";
    const absl::StatusOr<std::string> prompt =
        is_chat ? Render(model_, {.messages = golden["input"]}) : golden["input"].get<std::string>();
    ASSERT_TRUE(prompt.ok()) << prompt.status();
    EXPECT_EQ(*prompt, golden["prompt_text"].get<std::string>());
    EXPECT_EQ(*model_.tokenizer()->EncodeIds(*prompt, false), golden["prompt_ids"].get<Ids>());
    const Ids greedy = golden["greedy_ids"];
    EXPECT_EQ(model_.tokenizer()->Decode(greedy, false), golden["greedy_text"].get<std::string>());
  }
}

TEST_F(DemoModelTextTest, KnowsItsVocabulary) {
  EXPECT_EQ(model_.tokenizer()->tokens()->id_bound(), 49152U);
  EXPECT_EQ(model_.tokenizer()->tokens()->kind(2), TokenKind::kSpecial);
  EXPECT_EQ(model_.special_tokens().at("eos_token"), "<|im_end|>");
}

}  // namespace
}  // namespace trireme::server
