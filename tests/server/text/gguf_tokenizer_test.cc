#include "server/text/gguf_tokenizer.h"

#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/text/text_fixtures.h"

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const Tokenizer> FromGguf(const GgufVocabulary& vocabulary) {
  auto tokenizer = Tokenizer::FromGguf(vocabulary);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

// A byte-level vocabulary of ASCII characters and the tokens that `merges` make, in their order.
GgufVocabulary AsciiGguf(const std::string& pre, const std::vector<std::string>& merges) {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  for (char c = '!'; c <= '~'; ++c) vocabulary.tokens.emplace_back(1, c);
  vocabulary.tokens.push_back("Ġ");
  for (std::string merge : merges) {
    vocabulary.merges.push_back(merge);
    vocabulary.tokens.push_back(merge.erase(merge.find(' '), 1));
  }
  vocabulary.tokens.push_back("<s>");
  vocabulary.bos_token_id = static_cast<std::uint32_t>(vocabulary.tokens.size() - 1);
  vocabulary.token_types.assign(vocabulary.tokens.size(), kGgufNormal);
  vocabulary.token_types.back() = kGgufControl;
  return vocabulary;
}

// How `text` is cut into tokens.
std::vector<std::string> Pieces(const GgufVocabulary& vocabulary, const std::string& text) {
  const auto tokenizer = FromGguf(vocabulary);
  std::vector<std::string> pieces;
  const auto ids = tokenizer->EncodeIds(text, false);
  for (const std::uint32_t id : *ids) pieces.push_back(tokenizer->TokenBytes(id));
  return pieces;
}

const std::vector<std::string> kDigitMerges = {"1 2", "12 3", "123 4"};

TEST(GgufPreTokenizerTest, SplitsDigitsAsItsNameSays) {
  EXPECT_THAT(Pieces(AsciiGguf("smollm", kDigitMerges), "1234"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(Pieces(AsciiGguf("qwen2", kDigitMerges), "1234"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(Pieces(AsciiGguf("gpt-2", kDigitMerges), "1234"), ElementsAre("1234"));
  EXPECT_THAT(Pieces(AsciiGguf("llama-bpe", kDigitMerges), "1234"), ElementsAre("123", "4"));
  EXPECT_THAT(Pieces(AsciiGguf("gpt-4o", kDigitMerges), "1234"), ElementsAre("123", "4"));
}

TEST(GgufPreTokenizerTest, OnlyGpt4oSplitsWhereCaseRises) {
  const std::vector<std::string> merges = {"a B", "aB c"};
  EXPECT_THAT(Pieces(AsciiGguf("gpt-4o", merges), "aBc"), ElementsAre("a", "B", "c"));
  EXPECT_THAT(Pieces(AsciiGguf("qwen2", merges), "aBc"), ElementsAre("aBc"));
  EXPECT_THAT(Pieces(AsciiGguf("gpt-2", merges), "aBc"), ElementsAre("aBc"));
}

TEST(GgufPreTokenizerTest, KeepsContractionsWithGpt4oAndCutsThemElsewhere) {
  const std::vector<std::string> merges = {"n '", "n' t"};
  EXPECT_THAT(Pieces(AsciiGguf("gpt-4o", merges), "n't"), ElementsAre("n't"));
  EXPECT_THAT(Pieces(AsciiGguf("llama-bpe", merges), "n't"), ElementsAre("n", "'", "t"));
  EXPECT_THAT(Pieces(AsciiGguf("gpt-2", merges), "n't"), ElementsAre("n", "'", "t"));
}

TEST(GgufPreTokenizerTest, OnlyLlamaBpeTakesAWholeWordWithoutMerges) {
  for (const std::string pre : {"llama-bpe", "qwen2", "gpt-2", "gpt-4o", "smollm"}) {
    GgufVocabulary vocabulary = AsciiGguf(pre, {});
    vocabulary.tokens.push_back("abc");
    vocabulary.token_types.push_back(kGgufNormal);
    EXPECT_EQ(Pieces(vocabulary, "abc").size(), pre == "llama-bpe" ? 1U : 3U) << pre;
  }
}

TEST(GgufPreTokenizerTest, RefusesUnknownNamesAndDefault) {
  for (const std::string pre : {"default", "", "gpt2", "tekken", "Smollm"}) {
    const absl::Status status = Tokenizer::FromGguf(AsciiGguf(pre, {})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << pre;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + pre + "'"));
  }
}

TEST(GgufTokenizerTest, ByteLevelVocabularyEncodesAsItsTokenizerJson) {
  const auto gguf = FromGguf(ByteLevelGguf("qwen2"));
  const auto json = FixtureTokenizer("text_llama");
  ASSERT_EQ(gguf->tokens()->id_bound(), json->tokens()->id_bound());
  int num_compared = 0;
  const auto strings = ReadJsonFixture("hf/text_llama/tokenizer_golden.json")["strings"];
  for (const auto& entry : strings) {
    const std::string text = entry["text"];
    // The fixture's normalizer composes characters; no GGUF says so. What it changes does not decode to itself.
    if (entry["decoded"] != text) continue;
    EXPECT_EQ(*gguf->EncodeIds(text, false), entry["ids"].get<Ids>()) << text;
    EXPECT_EQ(gguf->Decode(entry["ids"].get<Ids>(), true), entry["decoded_skip_special"].get<std::string>());
    ++num_compared;
  }
  EXPECT_GE(num_compared, 45);
}

TEST(GgufTokenizerTest, ScoresGiveTheMergesOfTheTokenizerTheyWereMadeFrom) {
  const auto gguf = FromGguf(SentencePieceGguf());
  ASSERT_EQ(gguf->tokens()->id_bound(), 514U);
  const auto strings = ReadJsonFixture("hf/tokenizer_fallback/tokenizer_golden.json")["strings"];
  ASSERT_EQ(strings.size(), 49U);
  for (const auto& entry : strings) {
    const std::string text = entry["text"];
    EXPECT_EQ(*gguf->EncodeIds(text, false), entry["ids"].get<Ids>()) << text;
    EXPECT_EQ(*gguf->EncodeIds(text, true), entry["ids_with_special"].get<Ids>()) << text;
    EXPECT_EQ(gguf->Decode(entry["ids"].get<Ids>(), false), entry["decoded"].get<std::string>());
    EXPECT_EQ(gguf->Decode(entry["ids"].get<Ids>(), true), entry["decoded_skip_special"].get<std::string>());
  }
}

TEST(GgufTokenizerTest, SpacePrefixMayBeTurnedOff) {
  GgufVocabulary vocabulary = SentencePieceGguf();
  vocabulary.add_space_prefix = false;
  const auto without = FromGguf(vocabulary);
  const auto with = FromGguf(SentencePieceGguf());
  EXPECT_EQ(*without->EncodeIds(" n", false), *with->EncodeIds("n", false));
  EXPECT_EQ(without->Decode(Ids{348, 324}, false), " n");
  EXPECT_EQ(with->Decode(Ids{348, 324}, false), "n");
}

bool AddsBos(const GgufVocabulary& vocabulary) {
  const auto ids = FromGguf(vocabulary)->EncodeIds("a", true);
  return ids->front() == vocabulary.bos_token_id;
}

TEST(GgufTokenizerTest, AddsABosByDefaultWhereLlamaCppDoes) {
  EXPECT_TRUE(AddsBos(SentencePieceGguf()));
  EXPECT_TRUE(AddsBos(AsciiGguf("llama-bpe", {})));
  for (const std::string pre : {"qwen2", "gpt-2", "gpt-4o", "smollm"}) EXPECT_FALSE(AddsBos(AsciiGguf(pre, {}))) << pre;
}

TEST(GgufTokenizerTest, AddsBosAndEosAsTheFileSays) {
  GgufVocabulary vocabulary = AsciiGguf("llama-bpe", {});
  vocabulary.add_bos_token = false;
  EXPECT_FALSE(AddsBos(vocabulary));
  vocabulary.add_bos_token = true;
  vocabulary.add_eos_token = true;
  vocabulary.eos_token_id = 0;  // "!"
  EXPECT_EQ(*FromGguf(vocabulary)->EncodeIds("#", true), (Ids{*vocabulary.bos_token_id, 2, 0}));
  EXPECT_EQ(*FromGguf(vocabulary)->EncodeIds("#", false), Ids{2});
}

TEST(GgufTokenizerTest, FindsControlAndUserDefinedTokensInText) {
  const auto tokenizer = FromGguf(ByteLevelGguf("qwen2"));
  EXPECT_EQ(*tokenizer->EncodeIds("<|im_end|><think>", false), (Ids{507, 510}));
  EXPECT_EQ(tokenizer->tokens()->kind(507), TokenKind::kSpecial);
  EXPECT_EQ(tokenizer->tokens()->kind(510), TokenKind::kText);
}

TEST(GgufTokenizerTest, UnusedTokensHaveNoText) {
  GgufVocabulary vocabulary = AsciiGguf("gpt-2", {});
  vocabulary.token_types[1] = kGgufUnused;
  vocabulary.tokens[1] = "!";  // a padding row may be spelled like a token
  const auto tokenizer = FromGguf(vocabulary);
  EXPECT_EQ(tokenizer->TokenBytes(1), "");
  EXPECT_EQ(tokenizer->Decode(Ids{0, 1, 2}, false), "!#");
  EXPECT_EQ(tokenizer->tokens()->id_bound(), vocabulary.tokens.size());
}

struct Refused {
  std::string what;  // that the message names
  std::function<void(GgufVocabulary&)> spoil;
};

void ExpectRefused(const GgufVocabulary& good, const std::vector<Refused>& cases) {
  for (const Refused& refused : cases) {
    GgufVocabulary vocabulary = good;
    refused.spoil(vocabulary);
    const absl::Status status = Tokenizer::FromGguf(vocabulary).status();
    EXPECT_FALSE(status.ok()) << refused.what;
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(refused.what));
  }
}

TEST(GgufTokenizerTest, RefusesAByteLevelVocabularyThatIsWrongAndNamesTheKey) {
  ExpectRefused(
      ByteLevelGguf("qwen2"),
      {
          {"tokenizer.ggml.model 'bert'", [](auto& v) { v.model = "bert"; }},
          {"tokenizer.ggml.model ''", [](auto& v) { v.model = ""; }},
          {"tokenizer.ggml.token_type: 511 entries for 512 tokens", [](auto& v) { v.token_types.pop_back(); }},
          {"tokenizer.ggml.token_type: token 3 has type 9", [](auto& v) { v.token_types[3] = 9; }},
          {"tokens 3 and 4 are both '$'", [](auto& v) { v.tokens[4] = "$"; }},
          {"tokenizer.ggml.tokens: token 3 is not UTF-8", [](auto& v) { v.tokens[3] = "\xFF"; }},
          {"tokenizer.ggml.merges[0] is 'ab'", [](auto& v) { v.merges[0] = "ab"; }},
          {"tokenizer.ggml.merges[1] is 'a b c'", [](auto& v) { v.merges[1] = "a b c"; }},
          {"tokenizer.ggml.merges[0] is ' b'", [](auto& v) { v.merges[0] = " b"; }},
          {"tokenizer.ggml.merges[0] is not UTF-8", [](auto& v) { v.merges[0] = "\xFF b"; }},
          {"out of vocabulary", [](auto& v) { v.merges[0] = "日 本"; }},
          {"tokenizer.ggml.bos_token_id: is absent",
           [](auto& v) {
             v.add_bos_token = true;
             v.bos_token_id.reset();
           }},
          {"tokenizer.ggml.bos_token_id: 512",
           [](auto& v) {
             v.add_bos_token = true;
             v.bos_token_id = 512;
           }},
          {"tokenizer.ggml.eos_token_id: is absent",
           [](auto& v) {
             v.add_eos_token = true;
             v.eos_token_id.reset();
           }},
      });
}

TEST(GgufTokenizerTest, RefusesASentencePieceVocabularyThatIsWrongAndNamesTheKey) {
  ExpectRefused(SentencePieceGguf(),
                {
                    {"tokenizer.ggml.scores: 513 entries", [](auto& v) { v.scores.pop_back(); }},
                    {"tokenizer.ggml.scores: token 7", [](auto& v) { v.scores[7] = std::nanf(""); }},
                    {"tokenizer.ggml.unknown_token_id",
                     [](auto& v) {
                       v.token_types[0] = kGgufControl;
                       v.unknown_token_id.reset();
                     }},
                    {"tokenizer.ggml.tokens", [](auto& v) { v.tokens[300] = v.tokens[301]; }},
                });
}

TEST(GgufTokenizerTest, AnEmptyVocabularyIsNoPanic) {
  GgufVocabulary vocabulary;
  vocabulary.pre = "gpt-2";
  for (const std::string model : {"llama", "gpt2"}) {
    vocabulary.model = model;
    EXPECT_NE(Tokenizer::FromGguf(vocabulary).status().code(), absl::StatusCode::kInternal) << model;
  }
}

}  // namespace
}  // namespace trireme::server
