#include "client/cli/chat_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace trireme::client {
namespace {

using ::testing::HasSubstr;

TEST(ChatFile, TakesAListOfMessages) {
  const absl::StatusOr<v1::ChatInput> chat =
      ParseChat(R"([{"role": "system", "content": ""}, {"role": "user", "content": "H\u00e9 \ud83d\ude00"}])");
  ASSERT_TRUE(chat.ok()) << chat.status();
  ASSERT_EQ(chat->messages_size(), 2);
  EXPECT_EQ(chat->messages(0).role(), "system");
  EXPECT_EQ(chat->messages(0).content(), "");
  EXPECT_EQ(chat->messages(1).content(), "Hé 😀");
  EXPECT_EQ(chat->messages(1).extra_json(), "");
  EXPECT_EQ(chat->template_variables_json(), "");
}

TEST(ChatFile, TakesAnObjectWithVariablesAndFurtherKeys) {
  const absl::StatusOr<v1::ChatInput> chat = ParseChat(
      R"({"messages": [{"role": "tool", "content": "4", "name": "add"}], "template_variables": {"tools": [1]}})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->messages(0).extra_json(), R"({"name":"add"})");
  EXPECT_EQ(chat->template_variables_json(), R"({"tools":[1]})");
}

TEST(ChatFile, NamesWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "parse error"},
      {"[{", "parse error"},
      {"\"\xff\"", "parse error"},
      {"[]", "expected a list of at least one message"},
      {"3", "expected a list of at least one message"},
      {"{}", "expected a list of at least one message"},
      {R"({"messages": {}})", "expected a list of at least one message"},
      {R"({"message": []})", "unknown key \"message\""},
      {R"({"messages": [1], "template_variables": 2})", "\"template_variables\" is number; expected an object"},
      {R"(["hello"])", "message 0 is string; expected an object"},
      {R"([{"role": "user", "content": "a"}, {"content": "a"}])", "message 1 has no \"role\""},
      {R"([{"role": "user"}])", "message 0 has no \"content\""},
      {R"([{"role": "user", "content": null}])", "message 0: \"content\" is null; expected a string"},
      {R"([{"role": 1, "content": ""}])", "message 0: \"role\" is number; expected a string"},
  };
  for (const auto& [text, message] : cases) {
    const absl::StatusOr<v1::ChatInput> chat = ParseChat(text);
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(chat.status().message()), HasSubstr(message)) << text;
  }
}

TEST(ChatFile, ReadsStandardInputAndNamesFiles) {
  std::istringstream in(R"([{"role": "user", "content": "a"}])");
  EXPECT_TRUE(ReadChatFile("-", in).ok());
  EXPECT_EQ(ReadChatFile("/no/such/file", in).status(), absl::NotFoundError("/no/such/file: cannot be opened"));
  EXPECT_EQ(ReadChatFile("/", in).status(), absl::InvalidArgumentError("/: cannot be read"));
  EXPECT_EQ(ReadChatFile("/dev/zero", in).status(),
            absl::InvalidArgumentError("/dev/zero: has more than 67108864 bytes"));
  std::istringstream empty;
  EXPECT_THAT(std::string(ReadChatFile("-", empty).status().message()), HasSubstr("-: "));
}

}  // namespace
}  // namespace trireme::client
