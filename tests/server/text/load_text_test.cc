#include "server/text/load_text.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/text/text_fixtures.h"

namespace trireme::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LoadTextTest : public ::testing::Test {
 protected:
  LoadTextTest() : folder_(fs::path(::testing::TempDir()) / ("text_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~LoadTextTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  void WriteFallbackTokenizer() { Write("tokenizer.json", ReadFixture("hf/tokenizer_fallback/tokenizer.json")); }
  absl::StatusOr<TextModel> Load() { return LoadTextFromFolder(folder_.string()); }

  void ExpectRefused(absl::StatusCode code, const std::string& file) {
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr((folder_ / file).string()));
  }

  fs::path folder_;
};

TEST_F(LoadTextTest, AFolderWithoutATokenizerIsNoError) {
  Write("tokenizer_config.json", "not even JSON");
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->tokenizer(), nullptr);
}

TEST_F(LoadTextTest, AMissingFolderIsNotFound) {
  EXPECT_EQ(LoadTextFromFolder("/no/such/folder").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LoadTextTest, ReadsSpecialTokensAsTextsAndAsObjects) {
  WriteFallbackTokenizer();
  Write("tokenizer_config.json",
        R"({"bos_token":"<s>","eos_token":{"content":"</s>","special":true},"unk_token":null})");
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->special_tokens(), (SpecialTokenTexts{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
}

TEST_F(LoadTextTest, TokenizerJsonSaysWhatIsAddedUnlessTheConfigDoes) {
  WriteFallbackTokenizer();
  const auto first_id = [&] { return Load()->tokenizer()->EncodeIds("a", true)->front(); };
  EXPECT_EQ(first_id(), 1U);
  Write("tokenizer_config.json", R"({"bos_token":"<s>","add_bos_token":false})");
  EXPECT_NE(first_id(), 1U);
  Write("tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"</s>","add_bos_token":true,"add_eos_token":true})");
  const Ids ids = *Load()->tokenizer()->EncodeIds("a", true);
  EXPECT_EQ(ids.front(), 1U);
  EXPECT_EQ(ids.back(), 2U);
}

TEST_F(LoadTextTest, FindsTheTemplateInItsPlacesInOrder) {
  WriteFallbackTokenizer();
  const auto text = [&] { return *Render(*Load(), {}); };
  Write("tokenizer_config.json", R"({"chat_template":"inline"})");
  EXPECT_EQ(text(), "inline");
  Write("tokenizer_config.json",
        R"({"chat_template":[{"name":"tool_use","template":"tools"},{"name":"default","template":"named"}]})");
  EXPECT_EQ(text(), "named");
  Write("chat_template.jinja", "own file");
  EXPECT_EQ(text(), "own file");
}

TEST_F(LoadTextTest, ANamedListWithoutDefaultIsNoTemplate) {
  WriteFallbackTokenizer();
  Write("tokenizer_config.json", R"({"chat_template":[{"name":"rag","template":"x"}]})");
  EXPECT_EQ(Load()->chat_template(), nullptr);
}

TEST_F(LoadTextTest, AMalformedFileIsNamed) {
  Write("tokenizer.json", R"({"version":"1.0","model":)");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "tokenizer.json");
  WriteFallbackTokenizer();
  for (const std::string config : {"", "[]", "{", R"({"bos_token":7})", R"({"bos_token":{"content":[]}})",
                                   R"({"add_bos_token":"yes"})", R"({"chat_template":7})", R"({"chat_template":["x"]})",
                                   R"({"chat_template":[{"name":"default"}]})", R"({"chat_template":"{% if %}"})"}) {
    Write("tokenizer_config.json", config);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "tokenizer_config.json");
  }
  Write("tokenizer_config.json", "{}");
  Write("chat_template.jinja", "{{");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "chat_template.jinja");
}

TEST_F(LoadTextTest, AFolderInPlaceOfAFileIsRefused) {
  fs::create_directories(folder_ / "tokenizer.json");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "tokenizer.json");
}

Chat ChatFrom(const OrderedJson& golden) {
  Chat chat = {.messages = golden["messages"]};
  for (const auto& [name, value] : golden["options"].items()) {
    if (name == "add_generation_prompt") {
      chat.add_generation_prompt = value;
    } else {
      chat.variables[name] = value;
    }
  }
  return chat;
}

TEST(LoadTextFromFolderTest, ChatsAreRenderedAndEncodedAsTransformersDoes) {
  const auto model = LoadTextFromFolder(std::string(TRIREME_FIXTURES) + "/hf/text_llama");
  ASSERT_TRUE(model.ok()) << model.status();
  const OrderedJson chats = ReadJsonFixture("hf/text_llama/tokenizer_golden.json")["chats"];
  ASSERT_EQ(chats.size(), 9U);
  for (const auto& golden : chats) {
    const auto text = Render(*model, ChatFrom(golden));
    if (golden.contains("error")) {
      EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << golden;
      continue;
    }
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, golden["text"].get<std::string>());
    EXPECT_EQ(*model->tokenizer()->EncodeIds(*text, false), golden["ids"].get<Ids>());
  }
}

TEST(LoadTextFromGgufTest, HandsTheSpecialTokensToTheTemplate) {
  const auto model = LoadTextFromGguf(SentencePieceGguf(), "{{ bos_token }}x{{ eos_token }}{{ unk_token }}");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(*Render(*model, {}), "<s>x</s><unk>");
  EXPECT_EQ(LoadTextFromGguf(SentencePieceGguf(), std::nullopt)->chat_template(), nullptr);
  EXPECT_FALSE(LoadTextFromGguf(SentencePieceGguf(), "{{").ok());
}

}  // namespace
}  // namespace trireme::server
