// What a hostile or broken file may hold: each must come back as a status. A stack overflow or a panic that
// crosses the border would end the process, and with it this test.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/chat_template.h"
#include "server/text/tokenizer.h"
#include "tests/server/text/text_fixtures.h"

namespace trireme::server {
namespace {

std::string Repeat(int count, const std::string& text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

absl::Status CompileAndRender(const std::string& source) {
  const auto compiled = ChatTemplate::Compile(source);
  if (!compiled.ok()) return compiled.status();
  return (*compiled)->Render(OrderedJson::object(), absl::UnixEpoch()).status();
}

// Fine, or the template's fault: never ours.
void ExpectNoPanic(const std::string& source) {
  const absl::Status status = CompileAndRender(source);
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument)
      << source.substr(0, 60) << "…: " << std::string(status.message()).substr(0, 300);
}

TEST(BadTokenizerTest, RefusesEveryTruncation) {
  const std::string json = ReadFixture("hf/tokenizer_fallback/tokenizer.json");
  for (std::size_t size = 0; size < json.size(); size += 97) {
    EXPECT_EQ(Tokenizer::FromJson(json.substr(0, size)).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(BadTokenizerTest, RefusesWrongTypesInEachPlace) {
  const auto good = nlohmann::json::parse(ReadFixture("hf/text_llama/tokenizer.json"));
  for (const std::string pointer : {"/model", "/model/vocab", "/model/merges", "/model/merges/0", "/added_tokens",
                                    "/added_tokens/0/special", "/pre_tokenizer", "/decoder", "/normalizer"}) {
    for (const nlohmann::json& wrong : {nlohmann::json(7), nlohmann::json("text"), nlohmann::json::array({1, 2, 3})}) {
      auto bad = good;
      bad[nlohmann::json::json_pointer(pointer)] = wrong;
      const absl::Status status = Tokenizer::FromJson(bad.dump()).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pointer << " " << wrong << ": " << status;
    }
  }
}

TEST(BadTokenizerTest, RefusesJsonThatIsNoTokenizer) {
  for (const std::string json :
       {"", "null", "[]", "{}", "\xFF\xFE", R"({"version":"1.0"})", R"({"model":{"type":"BPE"}})"}) {
    EXPECT_EQ(Tokenizer::FromJson(json).status().code(), absl::StatusCode::kInvalidArgument) << json;
  }
  EXPECT_EQ(Tokenizer::FromJson(Repeat(200000, "[")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BadTokenizerTest, RefusesABadRegularExpression) {
  auto json = nlohmann::json::parse(ReadFixture("hf/text_llama/tokenizer.json"));
  for (const std::string& regex :
       {std::string("("), Repeat(100000, "("), std::string("(?<=a+)b"), std::string("a{5,1")}) {
    json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = regex;
    const absl::Status status = Tokenizer::FromJson(json.dump()).status();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  }
}

// Transformers' library reads both, and then fails at every text.
TEST(BadTokenizerTest, RefusesAPostProcessorThatDoesNotFitTheVocabulary) {
  const auto good = nlohmann::json::parse(ReadFixture("hf/tokenizer_fallback/tokenizer.json"));
  auto undefined = good;
  undefined["post_processor"]["special_tokens"].erase("<s>");
  auto beyond = good;
  beyond["post_processor"]["special_tokens"]["<s>"]["ids"] = {99999};
  for (const nlohmann::json& json : {undefined, beyond}) {
    EXPECT_EQ(Tokenizer::FromJson(json.dump()).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(std::string(Tokenizer::FromJson(beyond.dump()).status().message()), ::testing::HasSubstr("99999"));
}

TEST(BadTokenizerTest, RefusesAnIdThatWouldNeedAHugeTable) {
  auto json = nlohmann::json::parse(ReadFixture("hf/text_llama/tokenizer.json"));
  json["model"]["vocab"]["huge"] = 4294967295U;
  const absl::Status status = Tokenizer::FromJson(json.dump()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("huge"));
}

TEST(BadTemplateTest, SurvivesDeepNesting) {
  constexpr int kDepth = 60000;
  const std::vector<std::string> sources = {
      "{{ " + Repeat(kDepth, "not ") + "1 }}",
      "{{ " + Repeat(kDepth, "-") + "1 }}",
      "{{ " + Repeat(kDepth, "(") + "1" + Repeat(kDepth, ")") + " }}",
      "{{ " + Repeat(kDepth, "[") + Repeat(kDepth, "]") + " }}",
      "{{ x" + Repeat(kDepth, ".a") + " }}",
      "{{ 1" + Repeat(kDepth, "+1") + " }}",
      "{{ 1" + Repeat(30000, "|string") + " }}",
      "{{ 1" + Repeat(kDepth, "**1") + " }}",
      "{{ " + Repeat(20000, "1 if 1 else ") + "1 }}",
      Repeat(20000, "{% if 1 %}"),
      "{% if 1 %}" + Repeat(20000, "{% elif 1 %}") + "{% endif %}",
      Repeat(9000, "{% for a in x %}") + Repeat(9000, "{% endfor %}"),
  };
  for (const std::string& source : sources) ExpectNoPanic(source);
}

TEST(BadTemplateTest, SurvivesValuesThatNestAsDeepAsTheFuelAllows) {
  const std::string nest =
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}";
  ExpectNoPanic(nest + "done");
  ExpectNoPanic(nest + "{{ ns.x }}");
  ExpectNoPanic(nest + "{{ ns.x | tojson }}");
  ExpectNoPanic(nest + "{{ ns.x == [ns.x] }}");
  const std::string repeated = Repeat(9, "{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}");
  ExpectNoPanic("{% set ns = namespace(x=[]) %}" + repeated);
}

TEST(BadTemplateTest, EndsEndlessWorkInTime) {
  const std::vector<std::string> sources = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(9) %}x{% endfor %}{% endfor "
      "%}{% endfor %}",
      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}",
      "{{ ('x' * 4000000000) | length }}",
      "{{ range(4000000000) | list | length }}",
  };
  for (const std::string& source : sources) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(CompileAndRender(source).code(), absl::StatusCode::kInvalidArgument) << source;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << source;
  }
}

TEST(BadTemplateTest, RefusesASourceThatIsTooLongOrNotUtf8) {
  EXPECT_TRUE(ChatTemplate::Compile(std::string(256 << 10, 'x')).ok());
  EXPECT_EQ(ChatTemplate::Compile(std::string((256 << 10) + 1, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ChatTemplate::Compile("\xC3").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BadTextTest, EncodesLongRunsOfOneCharacter) {
  const auto tokenizer = FixtureTokenizer("text_llama");
  for (const std::string text : {"a", " ", "\n", "7", "\xE2\x80\x8B", "é", "<", "'"}) {
    const std::string run = Repeat(1 << 18, text);
    const auto ids = tokenizer->EncodeIds(run, false);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(tokenizer->Decode(*ids, false), run);
  }
}

// The regular expression gives up after ten million attempts at one place.
TEST(BadTextTest, ARunTooLongForTheRegularExpressionIsTheTextsFault) {
  const absl::Status status = FixtureTokenizer("text_llama")->EncodeIds(std::string(11'000'000, ' '), false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("too long"));
}

}  // namespace
}  // namespace trireme::server
