#include "server/text/tokenizer.h"

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/text/text_fixtures.h"

namespace trireme::server {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<const Tokenizer> tokenizer_ = FixtureTokenizer(GetParam());
  ordered_json golden_ = ReadJsonFixture(std::string("hf/") + GetParam() + "/tokenizer_golden.json");
};
INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenTest, ::testing::Values("text_llama", "tokenizer_fallback"),
                         [](const auto& fixture) { return std::string(fixture.param); });

// Golden offsets count code points.
std::uint32_t CodePointsBefore(const std::string& text, std::uint32_t byte) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < byte; ++i) count += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  return count;
}

TEST_P(GoldenTest, EncodesAsHuggingFaceDoes) {
  ASSERT_EQ(golden_["strings"].size(), 49U);
  for (const auto& entry : golden_["strings"]) {
    const std::string text = entry["text"];
    const auto plain = tokenizer_->EncodeIds(text, false);
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_EQ(*plain, entry["ids"].get<Ids>()) << text;
    const auto with_special = tokenizer_->EncodeIds(text, true);
    ASSERT_TRUE(with_special.ok()) << with_special.status();
    EXPECT_EQ(*with_special, entry["ids_with_special"].get<Ids>()) << text;
  }
}

TEST_P(GoldenTest, GivesTheSpansThatHuggingFaceGives) {
  for (const auto& entry : golden_["strings"]) {
    const std::string text = entry["text"];
    const auto encoding = tokenizer_->Encode(text, false);
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    EXPECT_EQ(encoding->ids, entry["ids"].get<Ids>());
    std::vector<std::vector<std::uint32_t>> offsets;
    for (const ByteSpan& span : encoding->spans) {
      ASSERT_LE(span.end, text.size());
      offsets.push_back({CodePointsBefore(text, span.begin), CodePointsBefore(text, span.end)});
    }
    EXPECT_EQ(ordered_json(offsets), entry["offsets"]) << text;
  }
}

TEST_P(GoldenTest, DecodesAsHuggingFaceDoes) {
  for (const auto& entry : golden_["strings"]) {
    const Ids ids = entry["ids"];
    EXPECT_EQ(tokenizer_->Decode(ids, false), entry["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer_->Decode(ids, true), entry["decoded_skip_special"].get<std::string>());
  }
}

TEST_P(GoldenTest, ManyThreadsMayUseOneTokenizer) {
  std::vector<std::thread> threads;
  std::atomic<int> num_wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        for (const auto& entry : golden_["strings"]) {
          const auto ids = tokenizer_->EncodeIds(entry["text"].get<std::string>(), false);
          const bool right = ids.ok() && *ids == entry["ids"].get<Ids>() &&
                             tokenizer_->Decode(*ids, false) == entry["decoded"].get<std::string>();
          num_wrong += !right;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST(TokenizerTest, KnowsItsVocabulary) {
  const auto tokenizer = FixtureTokenizer("text_llama");
  EXPECT_EQ(tokenizer->tokens()->id_bound(), 512U);
  EXPECT_EQ(tokenizer->tokens()->kind(507), TokenKind::kSpecial);
  EXPECT_EQ(tokenizer->tokens()->kind(510), TokenKind::kText) << "<think> is added, but not special";
  EXPECT_EQ(tokenizer->tokens()->kind(0), TokenKind::kText);
  EXPECT_EQ(tokenizer->tokens()->kind(1000000), TokenKind::kAbsent);
}

TEST(TokenizerTest, GivesTheBytesOfATokenByItself) {
  const auto byte_level = FixtureTokenizer("text_llama");
  EXPECT_EQ(byte_level->TokenBytes(127), "\xC3");
  EXPECT_EQ(byte_level->TokenBytes(256), "  ");
  EXPECT_EQ(byte_level->TokenBytes(507), "<|im_end|>");
  EXPECT_EQ(byte_level->TokenBytes(512), "");
  const auto fallback = FixtureTokenizer("tokenizer_fallback");
  EXPECT_EQ(fallback->TokenBytes(3), std::string(1, '\0'));
  EXPECT_EQ(fallback->TokenBytes(348), " ");
}

TEST(TokenizerTest, EndsReplaceThePostProcessor) {
  const std::string json = ReadFixture("hf/tokenizer_fallback/tokenizer.json");
  const auto both = Tokenizer::FromJson(json, TextEnds{.begin = "<s>", .end = "</s>"});
  ASSERT_TRUE(both.ok()) << both.status();
  const Ids inner = *(*both)->EncodeIds("a b", false);
  Ids expected = inner;
  expected.insert(expected.begin(), 1);
  expected.push_back(2);
  EXPECT_EQ(*(*both)->EncodeIds("a b", true), expected);
  const auto encoding = (*both)->Encode("a b", true);
  EXPECT_EQ(encoding->spans.front(), ByteSpan());
  const auto none = Tokenizer::FromJson(json, TextEnds{});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(*(*none)->EncodeIds("a b", true), inner);
}

TEST(TokenizerTest, RefusesAnEndThatIsNotAToken) {
  const auto tokenizer =
      Tokenizer::FromJson(ReadFixture("hf/tokenizer_fallback/tokenizer.json"), TextEnds{.begin = "<bos>"});
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("<bos>"));
}

TEST(TokenizerTest, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = FixtureTokenizer("text_llama");
  const absl::Status status = tokenizer->EncodeIds("ok\xFF", false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("UTF-8: a wrong byte at 2"));
  EXPECT_FALSE(tokenizer->Encode("\xC3", true).ok());
}

TEST(TokenizerTest, IgnoresTruncationAndPaddingOfTheFile) {
  auto json = nlohmann::json::parse(ReadFixture("hf/text_llama/tokenizer.json"));
  json["truncation"] = {{"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 16}}},
                     {"direction", "Right"},
                     {"pad_to_multiple_of", nullptr},
                     {"pad_id", 505},
                     {"pad_type_id", 0},
                     {"pad_token", "<|endoftext|>"}};
  const auto tokenizer = Tokenizer::FromJson(json.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->EncodeIds("nanana", false)->size(),
            FixtureTokenizer("text_llama")->EncodeIds("nanana", false)->size());
}

}  // namespace
}  // namespace trireme::server
