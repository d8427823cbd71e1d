#include "server/text/text_model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/load_text.h"
#include "tests/server/text/text_fixtures.h"

namespace trireme::server {
namespace {

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

TEST(TextModelTest, RendersAndEncodesChatsAsTransformersDoes) {
  const auto model = LoadTextFromFolder(std::string(TRIREME_FIXTURES) + "/hf/text_llama");
  ASSERT_TRUE(model.ok()) << model.status();
  const OrderedJson chats = ReadJsonFixture("hf/text_llama/tokenizer_golden.json")["chats"];
  ASSERT_EQ(chats.size(), 9U);
  for (const auto& golden : chats) {
    const auto rendered = model->EncodeChat(ChatFrom(golden));
    if (golden.contains("error")) {
      EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument) << golden;
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(rendered->text, golden["text"].get<std::string>());
    EXPECT_EQ(rendered->ids, golden["ids"].get<Ids>());
  }
}

TEST(TextModelTest, ABosThatTheTemplateWroteIsNotAddedAgain) {
  const auto tokenizer = FixtureTokenizer("tokenizer_fallback");
  const auto chat_template = ChatTemplate::Compile("{{ bos_token }}{{ messages[0].content }}");
  const TextModel model(tokenizer, *chat_template, {{"bos_token", "<s>"}});
  const auto rendered = model.EncodeChat({.messages = {{{"role", "user"}, {"content", "hi"}}}});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(rendered->text, "<s>hi");
  EXPECT_EQ(rendered->ids, *tokenizer->EncodeIds("hi", true));
  EXPECT_EQ(rendered->ids[0], 1U);
}

TEST(TextModelTest, WithoutATokenizerTextIsFailedPrecondition) {
  const TextModel model(nullptr, nullptr, {});
  EXPECT_EQ(model.tokenizer(), nullptr);
  EXPECT_EQ(model.EncodeText("hi", true).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model.EncodeChat({}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TextModelTest, WithoutATemplateChatIsFailedPreconditionAndTextIsNot) {
  const TextModel model(FixtureTokenizer("text_llama"), nullptr, {});
  EXPECT_TRUE(model.EncodeText("hi", true).ok());
  EXPECT_EQ(model.EncodeChat({}).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace trireme::server
