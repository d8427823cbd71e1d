#include "server/service/validate_generate.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "server/service/status_details.h"
#include "server/text/load_text.h"
#include "tests/server/service/details.h"
#include "tests/server/service/test_model.h"

namespace trireme::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

v1::GenerateRequest Parsed(const std::string& text_format) {
  v1::GenerateRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text_format, &request)) << text_format;
  return request;
}

const ServedModel& Model() {
  static const ServedModel* const model = new ServedModel(TextTestModel());
  return *model;
}

absl::StatusOr<ValidatedGenerate> Validate(v1::GenerateRequest request, const ServedModel& model = Model()) {
  if (request.request_id().empty()) request.set_request_id("of-the-test");
  return ValidateGenerate(model, ServiceLimits(), request);
}

ValidatedGenerate Valid(const std::string& text_format, const ServedModel& model = Model()) {
  absl::StatusOr<ValidatedGenerate> result = Validate(Parsed(text_format), model);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : ValidatedGenerate();
}

grpc::Status Refusal(const v1::GenerateRequest& request, const ServedModel& model = Model()) {
  const absl::StatusOr<ValidatedGenerate> result = Validate(request, model);
  EXPECT_FALSE(result.ok());
  return ToGrpcStatus(result.status(), absl::Seconds(1));
}

// Asserts that just `field` is refused, and that the message says `what`.
void ExpectViolation(const std::string& text_format, const std::string& field, const std::string& what) {
  const grpc::Status status = Refusal(Parsed(text_format));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << text_format;
  EXPECT_THAT(ViolatedFields(status), ElementsAre(field)) << text_format;
  EXPECT_THAT(status.error_message(), HasSubstr(what)) << text_format;
}

TEST(ValidateGenerate, AddsNoBosToAChatWhoseTemplateWroteIt) {
  ServedModel model = IdsOnlyTestModel();
  const absl::StatusOr<TextModel> text = LoadTextFromFolder(TRIREME_FIXTURES "/hf/tokenizer_fallback");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto chat_template = ChatTemplate::Compile("{{ bos_token }}{{ messages[0].content }}");
  model.text = TextModel(text->tokenizer(), *chat_template, {{"bos_token", "<s>"}});
  const std::vector<std::uint32_t> with_bos = Valid("text: 'hi'", model).request.prompt;
  EXPECT_EQ(with_bos.front(), 1u);
  EXPECT_EQ(Valid("chat { messages { role: 'user' content: 'hi' } }", model).request.prompt, with_bos);
}

TEST(ValidateGenerate, TakesTokenIdsAsTheyAre) {
  const ValidatedGenerate valid = Valid("token_ids { ids: [0, 511, 7] }");
  EXPECT_THAT(valid.request.prompt, ElementsAre(0, 511, 7));
  EXPECT_TRUE(valid.output.is_stream);
  EXPECT_TRUE(valid.output.skip_special_tokens);
}

TEST(ValidateGenerate, TokenizesText) { EXPECT_THAT(Valid("text: ' '").request.prompt, ElementsAre(220)); }

TEST(ValidateGenerate, RendersChats) {
  const ValidatedGenerate valid = Valid("chat { messages { role: 'user' content: 'Hi there!' } }");
  EXPECT_THAT(valid.request.prompt,
              ElementsAre(506, 82, 88, 265, 68, 76, 198, 33, 68, 276, 81, 72, 68, 69, 13, 507, 198, 506, 84, 82, 262,
                          198, 39, 72, 264, 266, 0, 507, 198, 506, 455, 72, 265, 327, 83, 198));
}

TEST(ValidateGenerate, UsesTheModelsDefaults) {
  ServedModel model = TextTestModel();
  model.sampling = {.temperature = 0.25f,
                    .top_k = 40,
                    .top_p = 0.5f,
                    .min_p = 0.125f,
                    .typical_p = 0.75f,
                    .repetition_penalty = 1.25f};
  const Request& request = Valid("text: 'x'", model).request;
  EXPECT_EQ(request.sampling.temperature, 0.25f);
  EXPECT_EQ(request.sampling.top_k, 40u);
  EXPECT_EQ(request.sampling.top_p, 0.5f);
  EXPECT_EQ(request.sampling.min_p, 0.125f);
  EXPECT_EQ(request.sampling.typical_p, 0.75f);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.25f);
  EXPECT_FALSE(request.sampling.logprobs.has_value());
  EXPECT_THAT(request.stopping.eos_token_ids, ElementsAre(507));
  EXPECT_THAT(request.stopping.stop_token_ids, IsEmpty());
}

TEST(ValidateGenerate, TakesZerosAsZeros) {
  ServedModel model = TextTestModel();
  model.sampling = {.temperature = 1, .top_k = 40, .top_p = 0.5f};
  const Request& request =
      Valid("text: 'x' sampling { temperature: 0 top_k: 0 seed: 0 } output { logprobs: 0 }", model).request;
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_k, 0u);
  EXPECT_EQ(request.sampling.seed, 0u);
  EXPECT_EQ(request.sampling.logprobs, 0u);
}

TEST(ValidateGenerate, TakesWhatIsGiven) {
  const ValidatedGenerate valid = Valid(
      "request_id: 'mine' model: 'text_llama' text: 'x' stream: false "
      "sampling { temperature: 100 top_k: 7 top_p: 1 seed: 18446744073709551615 } "
      "stopping { max_tokens: 9 stop_token_ids: [3, 4] ignore_eos: true } "
      "output { logprobs: 20 skip_special_tokens: false }");
  EXPECT_EQ(valid.request.id, "mine");
  EXPECT_FALSE(valid.output.is_stream);
  EXPECT_FALSE(valid.output.skip_special_tokens);
  EXPECT_EQ(valid.request.sampling.temperature, 100);
  EXPECT_EQ(valid.request.sampling.top_k, 7u);
  EXPECT_EQ(valid.request.sampling.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(valid.request.sampling.logprobs, 20u);
  EXPECT_EQ(valid.request.stopping.max_tokens, 9u);
  EXPECT_THAT(valid.request.stopping.stop_token_ids, UnorderedElementsAre(3, 4));
  EXPECT_THAT(valid.request.stopping.eos_token_ids, IsEmpty());
}

TEST(ValidateGenerate, ChoosesAnotherSeedEachTime) {
  EXPECT_NE(Valid("text: 'x'").request.sampling.seed, Valid("text: 'x'").request.sampling.seed);
}

TEST(RequestId, IsAnotherOneEachTime) {
  EXPECT_FALSE(MakeRequestId().empty());
  EXPECT_NE(MakeRequestId(), MakeRequestId());
}

TEST(ValidateGenerate, BoundsMaxTokensByTheContext) {
  EXPECT_EQ(Valid("token_ids { ids: [1, 2, 3] }").request.stopping.max_tokens, 1021u);
  EXPECT_EQ(Valid("token_ids { ids: [1, 2, 3] } stopping { max_tokens: 5000 }").request.stopping.max_tokens, 1021u);
}

TEST(ValidateGenerate, RefusesWrongFields) {
  ExpectViolation("", "input", "give one of text, token_ids, chat");
  ExpectViolation("token_ids {}", "token_ids", "no tokens");
  ExpectViolation("text: ''", "text", "no tokens");
  ExpectViolation("token_ids { ids: [1, 512] }", "token_ids.ids[1]", "is 512, ids are below 512");
  ExpectViolation("token_ids { ids: 1 } add_special_tokens: true", "add_special_tokens", "text only");
  ExpectViolation("text: 'x' sampling { temperature: nan }", "sampling.temperature", "nan");
  ExpectViolation("text: 'x' sampling { temperature: inf }", "sampling.temperature", "inf");
  ExpectViolation("text: 'x' sampling { temperature: -1 }", "sampling.temperature", "-1");
  ExpectViolation("text: 'x' sampling { temperature: 1e-30 }", "sampling.temperature", "1e-30");
  ExpectViolation("text: 'x' sampling { top_p: 0 }", "sampling.top_p", "is 0, must be above 0 and at most 1");
  ExpectViolation("text: 'x' sampling { top_p: 1.5 }", "sampling.top_p", "1.5");
  ExpectViolation("text: 'x' sampling { top_p: nan }", "sampling.top_p", "nan");
  ExpectViolation("text: 'x' stopping { max_tokens: 0 }", "stopping.max_tokens", "at least 1");
  ExpectViolation("text: 'x' stopping { stop_token_ids: 600 }", "stopping.stop_token_ids[0]", "600");
  ExpectViolation("text: 'x' output { logprobs: 21 }", "output.logprobs", "at most 20");
  ExpectViolation("text: 'x' output { prompt_logprobs: 21 }", "output.prompt_logprobs", "at most 20");
  ExpectViolation("text: 'x' priority: 101", "priority", "is 101, must be from -100 to 100");
  ExpectViolation("text: 'x' priority: -101", "priority", "is -101");
  ExpectViolation("text: 'x' truncate_prompt_tokens: 0", "truncate_prompt_tokens", "is 0, must be at least 1");
  ExpectViolation("text: 'x' sampling { min_p: -0.5 }", "sampling.min_p", "is -0.5, must be from 0 to 1");
  ExpectViolation("text: 'x' sampling { min_p: nan }", "sampling.min_p", "nan");
  ExpectViolation("text: 'x' sampling { typical_p: 0 }", "sampling.typical_p", "is 0, must be above 0 and at most 1");
  ExpectViolation("text: 'x' sampling { repetition_penalty: 0 }", "sampling.repetition_penalty", "from 0.01 to 100");
  ExpectViolation("text: 'x' sampling { repetition_penalty: inf }", "sampling.repetition_penalty", "inf");
  ExpectViolation("text: 'x' sampling { presence_penalty: 2.5 }", "sampling.presence_penalty", "from -2 to 2");
  ExpectViolation("text: 'x' sampling { frequency_penalty: nan }", "sampling.frequency_penalty", "nan");
  ExpectViolation("text: 'x' sampling { n: 0 }", "sampling.n", "is 0, must be from 1 to 64");
  ExpectViolation("text: 'x' sampling { n: 65 }", "sampling.n", "is 65");
  ExpectViolation("text: 'x' sampling { logit_bias { key: 3 value: 101 } }", "sampling.logit_bias[3]",
                  "is 101, must be from -100 to 100");
  ExpectViolation("text: 'x' sampling { logit_bias { key: 3 value: nan } }", "sampling.logit_bias[3]", "nan");
  ExpectViolation("text: 'x' sampling { logit_bias { key: 512 value: 1 } }", "sampling.logit_bias[512]",
                  "ids are below 512");
  ExpectViolation("text: 'x' stopping { max_tokens: 5 min_tokens: 6 }", "stopping.min_tokens",
                  "is 6, more than max_tokens, which is 5");
  ExpectViolation("text: 'x' stopping { stop: ['a', ''] }", "stopping.stop[1]", "is empty");
  ExpectViolation("text: 'x' stopping { bad_words: '' }", "stopping.bad_words[0]", "is empty");
  ExpectViolation("text: 'x' stopping { time_limit {} }", "stopping.time_limit", "must be above 0");
  ExpectViolation("text: 'x' stopping { time_limit { seconds: -1 } }", "stopping.time_limit", "is -1 s");
  ExpectViolation("text: 'x' stopping { time_limit { seconds: 1 nanos: -1 } }", "stopping.time_limit",
                  "no google.protobuf.Duration");
  ExpectViolation("chat {}", "chat.messages", "empty");
  ExpectViolation("chat { messages { content: 'x' } }", "chat.messages[0].role", "empty");
  ExpectViolation("chat { messages { role: 'user' extra_json: '[]' } }", "chat.messages[0].extra_json",
                  "no JSON object");
  ExpectViolation("chat { messages { role: 'user' extra_json: '{\"role\": 1}' } }", "chat.messages[0].extra_json",
                  "\"role\"");
  ExpectViolation("chat { messages { role: 'user' } template_variables_json: '{' }", "chat.template_variables_json",
                  "no JSON object");
}

TEST(ValidateGenerate, TakesAllThatTheEngineKnows) {
  const std::string sampling =
      "sampling { min_p: 0.25 typical_p: 0.5 repetition_penalty: 1.5 presence_penalty: 2 frequency_penalty: -2 n: 3 "
      "logit_bias { key: 5 value: -100 } logit_bias { key: 511 value: 0.5 } } ";
  const std::string stopping =
      "stopping { max_tokens: 9 min_tokens: 9 bad_words: ['there', ' there', 'é'] "
      "time_limit { seconds: 1 nanos: 500000000 } } ";
  const Request request =
      Valid("text: 'x' priority: -100 cache_salt: 'salt' output { prompt_logprobs: 0 } " + sampling + stopping).request;
  EXPECT_EQ(request.cache_salt, "salt");
  EXPECT_EQ(request.sampling.prompt_logprobs, 0u);
  EXPECT_EQ(request.priority, -100);
  EXPECT_EQ(request.n, 3u);
  EXPECT_EQ(request.time_limit, absl::Milliseconds(1500));
  EXPECT_EQ(request.stopping.min_tokens, 9u);
  EXPECT_EQ(request.sampling.min_p, 0.25f);
  EXPECT_EQ(request.sampling.typical_p, 0.5f);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.sampling.presence_penalty, 2);
  EXPECT_EQ(request.sampling.frequency_penalty, -2);
  EXPECT_EQ(request.sampling.logit_bias, (std::map<std::uint32_t, float>{{5, -100}, {511, 0.5}}));
  const Tokenizer& tokenizer = *Model().text.tokenizer();
  for (const char* word : {"there", " there", "é"}) {
    EXPECT_THAT(request.sampling.bad_words, testing::Contains(tokenizer.EncodeIds(word, false).value()));
  }
}

TEST(ValidateGenerate, LeavesOutNothingByDefault) {
  const Request request = Valid("text: 'x'").request;
  EXPECT_EQ(request.priority, 0);
  EXPECT_EQ(request.n, 1u);
  EXPECT_EQ(request.time_limit, absl::InfiniteDuration());
  EXPECT_EQ(request.stopping.min_tokens, 0u);
  EXPECT_EQ(request.sampling.repetition_penalty, 1);
  EXPECT_THAT(request.sampling.bad_words, IsEmpty());
  EXPECT_FALSE(request.sampling.prompt_logprobs.has_value());
}

TEST(ValidateGenerate, BoundsTheFewestTokensByTheContext) {
  EXPECT_EQ(Valid("token_ids { ids: [1, 2, 3] } stopping { min_tokens: 5000 }").request.stopping.min_tokens, 1021u);
}

TEST(ValidateGenerate, ForbidsNoWordThatTheModelCannotSay) {
  ServedModel model = TextTestModel();
  model.vocab_size = 100;
  EXPECT_THAT(Valid("token_ids { ids: 1 } stopping { bad_words: 'there' }", model).request.sampling.bad_words,
              IsEmpty());
}

TEST(ValidateGenerate, RefusesABadWordWithoutTokens) {
  ExpectViolation("text: 'x' stopping { bad_words: ['a', '  '] }", "stopping.bad_words[1]", "has no tokens");
}

TEST(ValidateGenerate, PlansTheOutput) {
  const ValidatedGenerate valid = Valid(
      "request_id: 'mine' text: 'x' sampling { seed: 4 } output { echo: true } "
      "stopping { stop: ['ab', 'c'] stop_token_ids: 3 include_stop_str_in_output: true }");
  EXPECT_EQ(valid.output.request_id, "mine");
  EXPECT_EQ(valid.output.num_prompt_tokens, valid.request.prompt.size());
  EXPECT_EQ(valid.output.seed, 4u);
  EXPECT_EQ(valid.output.n, 1u);
  EXPECT_THAT(valid.output.stop_token_ids, ElementsAre(3));
  EXPECT_TRUE(valid.output.includes_stop);
  EXPECT_EQ(valid.output.echo, "x");
  EXPECT_EQ(valid.output.tokenizer, Model().text.tokenizer());
  ASSERT_NE(valid.output.stop_strings, nullptr);
  StopFilter filter(valid.output.stop_strings, false);
  EXPECT_EQ(filter.Push("xxabc", true), "xx");
  EXPECT_EQ(Valid("text: 'x'").output.stop_strings, nullptr);
  EXPECT_EQ(Valid("text: 'x' output { echo: false }").output.echo, std::nullopt);
}

TEST(ValidateGenerate, EchoesThePromptAsItWasGiven) {
  EXPECT_EQ(Valid("text: ' a\\n' output { echo: true }").output.echo, " a\n");
  const std::string chat = *Valid("chat { messages { role: 'user' content: 'Hi' } } output { echo: true }").output.echo;
  EXPECT_THAT(chat, AllOf(HasSubstr("<|im_start|>user"), HasSubstr("Hi"), HasSubstr("assistant")));
  EXPECT_EQ(Valid("token_ids { ids: [507, 64] } output { echo: true }").output.echo, "a");
  EXPECT_EQ(Valid("token_ids { ids: [507, 64] } output { echo: true skip_special_tokens: false }").output.echo,
            "<|im_end|>a");
}

TEST(ValidateGenerate, CutsThePromptsBeginningIfAskedTo) {
  const std::string prompt = "token_ids { ids: [1, 2, 3] } ";
  EXPECT_THAT(Valid(prompt + "truncate_prompt_tokens: 2").request.prompt, ElementsAre(2, 3));
  EXPECT_THAT(Valid(prompt + "truncate_prompt_tokens: 3").request.prompt, ElementsAre(1, 2, 3));
  EXPECT_THAT(Valid(prompt + "truncate_prompt_tokens: 4294967295").request.prompt, ElementsAre(1, 2, 3));
  EXPECT_EQ(Valid(prompt + "truncate_prompt_tokens: 1").output.num_prompt_tokens, 1u);
  const ValidatedGenerate text = Valid("text: 'abc' truncate_prompt_tokens: 1 output { echo: true }");
  EXPECT_THAT(text.request.prompt, testing::SizeIs(1));
  EXPECT_EQ(text.output.echo, Model().text.tokenizer()->Decode(text.request.prompt, true)) << "what is left of it";
}

TEST(ValidateGenerate, TakesALongPromptIfWhatIsLeftFits) {
  v1::GenerateRequest request;
  request.set_text(std::string(3000, 'z') + " \xf0\x9f\x98\x80");
  request.set_truncate_prompt_tokens(1023);
  const absl::StatusOr<ValidatedGenerate> valid = Validate(request);
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_EQ(valid->request.prompt.size(), 1023u);
  EXPECT_EQ(valid->request.stopping.max_tokens, 1u);
  request.set_truncate_prompt_tokens(1024);
  EXPECT_THAT(Refusal(request).error_message(), AllOf(HasSubstr("1024 tokens"), HasSubstr("holds 1024")));
}

TEST(ValidateGenerate, NeedsATokenizerForFieldsAboutText) {
  const grpc::Status status = Refusal(
      Parsed("token_ids { ids: 1 } stopping { stop: 'x' bad_words: 'y' } output { echo: true }"), IdsOnlyTestModel());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "NO_TOKENIZER");
  EXPECT_THAT(ViolatedFields(status), ElementsAre("stopping.stop", "stopping.bad_words", "output.echo"));
}

TEST(ValidateGenerate, NamesEverythingThatIsWrongAtOnce) {
  const grpc::Status status =
      Refusal(Parsed("token_ids { ids: [9, 999] } sampling { temperature: nan top_p: 2 } stopping { max_tokens: 0 } "
                     "output { logprobs: 100 }"));
  EXPECT_THAT(ViolatedFields(status), UnorderedElementsAre("token_ids.ids[1]", "sampling.temperature", "sampling.top_p",
                                                           "stopping.max_tokens", "output.logprobs"));
  EXPECT_EQ(ReasonOf(status), "INVALID_REQUEST");
}

TEST(ValidateGenerate, RefusesAPromptLongerThanTheContextWithBothLengths) {
  v1::GenerateRequest request;
  for (int i = 0; i < 1024; ++i) request.mutable_token_ids()->add_ids(1);
  EXPECT_THAT(Refusal(request).error_message(), AllOf(HasSubstr("1024 tokens"), HasSubstr("holds 1024")));
  request.mutable_token_ids()->mutable_ids()->RemoveLast();
  EXPECT_TRUE(Validate(request).ok());

  request.set_text(std::string(3000, 'z') + " \xf0\x9f\x98\x80");
  const grpc::Status text_status = Refusal(request);
  EXPECT_THAT(ViolatedFields(text_status), ElementsAre("text"));
  EXPECT_THAT(text_status.error_message(), HasSubstr("holds 1024"));
}

TEST(ValidateGenerate, RefusesTextThatIsTooLargeToLookAt) {
  v1::GenerateRequest request;
  request.set_text(std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(Refusal(request).error_message(), HasSubstr("1048577 bytes, at most 1048576"));
}

TEST(ValidateGenerate, RefusesJsonThatNestsDeepWithoutEndingTheProcess) {
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_role("user");
  request.mutable_chat()->set_template_variables_json("{\"a\":" + std::string(400'000, '[') +
                                                      std::string(400'000, ']') + "}");
  EXPECT_THAT(Refusal(request).error_message(), HasSubstr("nests more than"));
}

TEST(ValidateGenerate, RefusesTooMuchOfEachThing) {
  v1::GenerateRequest request = Parsed("text: 'x'");
  request.set_cache_salt(std::string(129, 's'));
  for (int i = 0; i < 65; ++i) request.mutable_stopping()->add_stop("x");
  for (int i = 0; i < 257; ++i) request.mutable_stopping()->add_bad_words("x");
  for (int i = 0; i < 257; ++i) request.mutable_stopping()->add_stop_token_ids(1);
  for (std::uint32_t i = 0; i < 1025; ++i) (*request.mutable_sampling()->mutable_logit_bias())[i] = 1;
  const grpc::Status status = Refusal(request);
  EXPECT_THAT(ViolatedFields(status), UnorderedElementsAre("cache_salt", "stopping.stop", "stopping.bad_words",
                                                           "stopping.stop_token_ids", "sampling.logit_bias"));
  EXPECT_THAT(status.error_message(), HasSubstr("has 65 strings, at most 64 are taken"));
}

TEST(ValidateGenerate, RefusesStringsThatAreTooLong) {
  v1::GenerateRequest request = Parsed("text: 'x' stopping { stop: ['x', 'x'] bad_words: ['x', 'x'] }");
  *request.mutable_stopping()->mutable_stop(1) = std::string(1025, 'x');
  *request.mutable_stopping()->mutable_bad_words(1) = std::string(257, 'x');
  EXPECT_THAT(ViolatedFields(Refusal(request)), UnorderedElementsAre("stopping.stop[1]", "stopping.bad_words[1]"));
}

TEST(ValidateGenerate, RefusesAnIdThatIsTooLong) {
  v1::GenerateRequest request = Parsed("text: 'x'");
  request.set_request_id(std::string(129, 'i'));
  EXPECT_THAT(ViolatedFields(Refusal(request)), ElementsAre("request_id"));
  request.set_request_id(std::string(128, 'i'));
  EXPECT_TRUE(Validate(request).ok());
}

TEST(ValidateGenerate, KnowsOneModel) {
  const grpc::Status status = Refusal(Parsed("text: 'x' model: 'gpt'"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("\"gpt\""), HasSubstr("\"text_llama\"")));
}

TEST(ValidateGenerate, NeedsATokenizerForText) {
  const ServedModel ids_only = IdsOnlyTestModel();
  for (const char* input : {"text: 'x'", "chat { messages { role: 'user' } }"}) {
    const grpc::Status status = Refusal(Parsed(input), ids_only);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(ReasonOf(status), "NO_TOKENIZER");
  }
  EXPECT_THAT(Valid("token_ids { ids: 3 }", ids_only).request.prompt, ElementsAre(3));
}

TEST(ValidateGenerate, NeedsATemplateForChat) {
  ServedModel model = TextTestModel();
  model.text = TextModel(model.text.tokenizer(), nullptr, {});
  const grpc::Status status = Refusal(Parsed("chat { messages { role: 'user' } }"), model);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "NO_CHAT_TEMPLATE");
}

TEST(ValidateGenerate, RefusesTokensThatTheModelHasNoRowFor) {
  ServedModel model = TextTestModel();
  model.vocab_size = 200;
  const grpc::Status status = Refusal(Parsed("text: ' '"), model);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("220"));
}

TEST(ValidateGenerate, CountsAChatsMessagesAsWellAsTheirBytes) {
  v1::GenerateRequest request;
  for (int i = 0; i < 20'000; ++i) request.mutable_chat()->add_messages();
  const grpc::Status status = Refusal(request);
  EXPECT_THAT(ViolatedFields(status), ElementsAre("chat"));
  EXPECT_THAT(status.error_message(), HasSubstr("has 1280000 bytes, at most 1048576 are taken; each of its 20000"));
}

TEST(ValidateGenerate, LooksAtNoElementOfAListThatIsTooLong) {
  v1::GenerateRequest request;
  for (int i = 0; i < 2000; ++i) {
    request.mutable_token_ids()->add_ids(100'000);
    request.mutable_stopping()->add_stop_token_ids(100'000);
    request.mutable_stopping()->add_stop("");
  }
  EXPECT_THAT(ViolatedFields(Refusal(request)), ElementsAre("token_ids", "stopping.stop_token_ids", "stopping.stop"));
}

}  // namespace
}  // namespace trireme::server
