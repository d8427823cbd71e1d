#include "server/text/bad_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/text/text_fixtures.h"

namespace trireme::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::vector<Ids> Sequences(const Tokenizer& tokenizer, const std::string& word) {
  absl::StatusOr<std::vector<Ids>> sequences = BadWordTokens(tokenizer, word);
  EXPECT_TRUE(sequences.ok()) << sequences.status();
  return sequences.ok() ? *std::move(sequences) : std::vector<Ids>();
}

Ids Encoded(const Tokenizer& tokenizer, const std::string& text) { return *tokenizer.EncodeIds(text, false); }

TEST(BadWords, AreForbiddenAtTheStartAndAfterASpace) {
  const auto tokenizer = FixtureTokenizer("text_llama");
  const Ids bare = Encoded(*tokenizer, "there"), after_space = Encoded(*tokenizer, " there");
  ASSERT_NE(bare, after_space);
  EXPECT_THAT(Sequences(*tokenizer, "there"), UnorderedElementsAre(bare, after_space));
}

TEST(BadWords, DoNotCountTheirLeadingSpaces) {
  const auto tokenizer = FixtureTokenizer("text_llama");
  EXPECT_EQ(Sequences(*tokenizer, "  there"), Sequences(*tokenizer, "there"));
}

TEST(BadWords, AreOneSequenceWhereTheOtherEndsWithIt) {
  const auto tokenizer = FixtureTokenizer("text_llama");
  // A character that is tokenized by bytes, whatever stands before it.
  const Ids bare = Encoded(*tokenizer, "\xf0\x9f\x98\x80");
  Ids spaced = Encoded(*tokenizer, " \xf0\x9f\x98\x80");
  ASSERT_EQ(spaced.size(), bare.size() + 1);
  EXPECT_THAT(Sequences(*tokenizer, "\xf0\x9f\x98\x80"), ElementsAre(bare));
}

TEST(BadWords, MayBeWhiteSpaceButNotSpacesAlone) {
  const auto tokenizer = FixtureTokenizer("text_llama");
  EXPECT_THAT(Sequences(*tokenizer, "\n"), Contains(Encoded(*tokenizer, "\n")));
  for (const char* nothing : {"", " ", "    "}) {
    EXPECT_EQ(BadWordTokens(*tokenizer, nothing).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(BadWords, GetNoSpecialTokensAround) {
  const auto tokenizer = FixtureTokenizer("tokenizer_fallback");
  const std::vector<Ids> sequences = Sequences(*tokenizer, "Hello");
  EXPECT_FALSE(sequences.empty());
  for (const Ids& ids : sequences) {
    for (const std::uint32_t id : ids) EXPECT_NE(tokenizer->tokens()->kind(id), TokenKind::kSpecial);
  }
}

}  // namespace
}  // namespace trireme::server
