#include "client/bench/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace trireme::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WriteFile(const std::string& text) {
  const std::string path =
      testing::TempDir() + "/prompts-" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
  std::ofstream(path) << text;
  return path;
}

TEST(ReadPromptFile, TakesTextsAndTokenIds) {
  const auto prompts =
      ReadPromptFile(WriteFile("{\"prompt\": \"Hé\"}\n\n  \r\n"
                               "{\"prompt\": [1, 4294967295], \"output_tokens\": 7}\n"
                               "{\"output_tokens\": 1, \"prompt\": []}"));
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 3u);
  EXPECT_EQ(std::get<std::string>((*prompts)[0].prompt), "Hé");
  EXPECT_EQ((*prompts)[0].output_tokens, std::nullopt);
  EXPECT_THAT(std::get<1>((*prompts)[1].prompt), ElementsAre(1, 4294967295));
  EXPECT_EQ((*prompts)[1].output_tokens, 7u);
  EXPECT_THAT(std::get<1>((*prompts)[2].prompt), ElementsAre());
}

TEST(ReadPromptFile, NamesTheLineThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"prompt\": ", "parse error"},
      {"[]", "expected a JSON object with \"prompt\""},
      {"{}", "expected a JSON object with \"prompt\""},
      {"{\"prompt\": 5}", "a text or an array of token ids, got number"},
      {"{\"prompt\": [1, -1]}", "expected a token id, a whole number from 0 to 4294967295, got -1"},
      {"{\"prompt\": [4294967296]}", "got 4294967296"},
      {"{\"prompt\": [\"a\"]}", "got \"a\""},
      {"{\"prompt\": \"a\", \"output_tokens\": 0}", "expected \"output_tokens\", a whole number from 1 to 4294967295"},
      {"{\"prompt\": \"a\", \"output_tokens\": 1.5}", "got 1.5"},
      {"{\"prompt\": \"a\", \"max_tokens\": 5}", "unknown key \"max_tokens\""},
      {"{\"prompt\": [\"\xff\"]}", ""},
  };
  for (const auto& [line, message] : cases) {
    const std::string path = WriteFile("{\"prompt\": \"a\"}\n\n" + std::string(line) + "\n");
    const auto prompts = ReadPromptFile(path);
    EXPECT_EQ(prompts.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(prompts.status().message()), testing::StartsWith(path + ", line 3: "));
    EXPECT_THAT(std::string(prompts.status().message()), HasSubstr(message));
  }
}

TEST(ReadPromptFile, RefusesAFileWithoutPrompts) {
  EXPECT_EQ(ReadPromptFile("/no/such/file").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadPromptFile(WriteFile("\n\n")).status().message()), HasSubstr("holds no prompt"));
}

}  // namespace
}  // namespace trireme::client
