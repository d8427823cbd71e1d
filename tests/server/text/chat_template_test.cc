#include "server/text/chat_template.h"

#include <cstdlib>
#include <ctime>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<std::string> Render(std::string_view source, const OrderedJson& context = OrderedJson::object(),
                                   absl::Time now = absl::UnixEpoch()) {
  auto compiled = ChatTemplate::Compile(source);
  if (!compiled.ok()) return compiled.status();
  return (*compiled)->Render(context, now);
}

std::string Text(std::string_view source, const OrderedJson& context = OrderedJson::object()) {
  auto text = Render(source, context);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

TEST(ChatTemplateTest, TrimsBlocksAsTransformersDoes) {
  EXPECT_EQ(Text("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
}

TEST(ChatTemplateTest, DoesNotEscapeHtml) {
  EXPECT_EQ(Text("{{ x }} {{ x | tojson }}", {{"x", "<b> & 'ü'"}}), "<b> & 'ü' \"<b> & 'ü'\"");
}

TEST(ChatTemplateTest, ToJsonWritesAsJsonDumps) {
  const OrderedJson x = OrderedJson::parse(R"({"b":[1,2.0,1e20,1e-7,true,null],"a":{},"s":"\"\u0001\n\u007fé😀"})");
  EXPECT_EQ(Text("{{ x | tojson }}", {{"x", x}}),
            R"({"b": [1, 2.0, 1e+20, 1e-07, true, null], "a": {}, "s": "\"\u0001\n)"
            "\x7F"
            R"(é😀"})");
  EXPECT_EQ(Text("{{ x | tojson(sort_keys=true, separators=(',', ':')) }}", {{"x", {{"b", 1}, {"a", 2}}}}),
            R"({"a":2,"b":1})");
  EXPECT_EQ(Text("{{ x | tojson(indent=2) }}", {{"x", {{"b", {1, 2}}}}}), "{\n  \"b\": [\n    1,\n    2\n  ]\n}");
  EXPECT_EQ(Text("{{ x | tojson(ensure_ascii=true) }}", {{"x", "é😀"}}), R"("\u00e9\ud83d\ude00")");
}

TEST(ChatTemplateTest, KeepsTheOrderOfKeys) {
  EXPECT_EQ(Text("{% for k in x %}{{ k }}{% endfor %}", {{"x", {{"z", 1}, {"a", 2}, {"m", 3}}}}), "zam");
}

TEST(ChatTemplateTest, HasPythonsMethods) {
  EXPECT_EQ(Text("{{ 'a,b'.split(',')[-1] }}{{ ' x '.strip() }}{{ 'abc'.removeprefix('a').removesuffix('c') }}"),
            "bxb");
  EXPECT_EQ(Text("{% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %}", {{"x", {{"a", 1}}}}), "a=1;");
  EXPECT_EQ(Text("{{ 'a\nb\n' | indent(2) }}|{{ 'a\n\nb' | indent(width=1, first=true, blank=true) }}"),
            "a\n  b\n| a\n \n b");
}

TEST(ChatTemplateTest, RendersTheBodyOfGenerationTags) {
  EXPECT_EQ(Text("a{% generation %}b{%- endgeneration -%} c{{ '{%' }}"), "abc{%");
}

TEST(ChatTemplateTest, TellsTheTimeItIsGiven) {
  const absl::Time now = absl::FromUnixSeconds(1700000000);
  std::time_t seconds = 1700000000;
  std::tm local = {};
  localtime_r(&seconds, &local);
  char expected[64];
  std::strftime(expected, sizeof(expected), "%d %b %Y %H:%M", &local);
  EXPECT_EQ(*Render("{{ strftime_now('%d %b %Y %H:%M') }}", OrderedJson::object(), now), expected);
}

TEST(ChatTemplateTest, AnExceptionIsInvalidArgumentInTheTemplatesOwnWords) {
  const absl::Status status = Render("{{ raise_exception('Roles must alternate: ü') }}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "Roles must alternate: ü");
  const absl::Status in_macro = Render("{% macro m() %}{{ raise_exception('deep') }}{% endmacro %}{{ m() }}").status();
  EXPECT_EQ(in_macro.message(), "deep");
}

TEST(ChatTemplateTest, ASyntaxErrorTellsTheLine) {
  const absl::Status status = ChatTemplate::Compile("line one\n{% if %}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(StartsWith("chat template: "), HasSubstr("chat:2")));
}

TEST(ChatTemplateTest, AnErrorWhileRenderingIsInvalidArgument) {
  for (const std::string_view source :
       {"{{ 1 + none }}", "{{ x.y.z }}", "{{ nothing() }}", "{{ 'a' | no_such_filter }}", "{% include 'other' %}"}) {
    EXPECT_EQ(Render(source).status().code(), absl::StatusCode::kInvalidArgument) << source;
  }
}

TEST(ChatTemplateTest, RefusesAContextThatItCannotTake) {
  EXPECT_EQ(Render("x", OrderedJson::array()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Render("x", {{"a", "\xFF"}}).status().code(), absl::StatusCode::kInvalidArgument);
  OrderedJson deep = 1;
  for (int i = 0; i < 100000; ++i) deep = OrderedJson::array({std::move(deep)});
  const absl::Status status = Render("x", {{"a", std::move(deep)}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("100 levels"));
}

TEST(ChatTemplateTest, TakesAContextOfTheDeepestNestingAllowed) {
  OrderedJson deep = 1;
  for (int i = 0; i < 99; ++i) deep = OrderedJson::array({std::move(deep)});
  EXPECT_EQ(Text("{{ a | tojson }}", {{"a", std::move(deep)}}), std::string(99, '[') + "1" + std::string(99, ']'));
}

TEST(ChatContextTest, GivesWhatTransformersGives) {
  Chat chat = {.messages = {{{"role", "user"}, {"content", "hi"}}}, .add_generation_prompt = false};
  chat.variables["enable_thinking"] = false;
  const auto context = ChatContext(chat, {{"bos_token", "<s>"}});
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(*context, OrderedJson::parse(R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false,
      "tools":null,"documents":null,"bos_token":"<s>","enable_thinking":false})"));
}

TEST(ChatContextTest, RefusesWhatIsNotAConversation) {
  EXPECT_FALSE(ChatContext({.messages = OrderedJson::object()}, {}).ok());
  EXPECT_FALSE(ChatContext({.messages = {"text"}}, {}).ok());
  EXPECT_FALSE(ChatContext({.variables = OrderedJson::array()}, {}).ok());
  EXPECT_FALSE(ChatContext({.variables = {{"messages", OrderedJson::array()}}}, {}).ok());
}

}  // namespace
}  // namespace trireme::server
