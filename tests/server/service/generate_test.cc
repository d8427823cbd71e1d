// Generate as a client sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/server/service/details.h"
#include "tests/server/service/service_fixture.h"

namespace trireme::server {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::uint32_t> IdsOf(const v1::Completion& completion) {
  return {completion.token_ids().begin(), completion.token_ids().end()};
}

constexpr std::uint64_t kSeed = 11;

// 40 tokens after a short prompt of ids, seed 11, the end of sequence ignored.
v1::GenerateRequest FortyTokens() {
  return GenerateRequestFrom(
      "token_ids { ids: [5, 6, 7] } sampling { seed: 11 } stopping { max_tokens: 40 ignore_eos: true }");
}

std::vector<std::uint32_t> FortyExpected() { return FakeContinuation({5, 6, 7}, kSeed, kTestVocabulary, 40); }

TEST(Generate, StreamsTextAndIdsAndThenTheWhole) {
  TestServer server;
  const GenerateResult result = server.Generate(FortyTokens());
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.ChunkTokenIds(), FortyExpected());
  EXPECT_THAT(IdsOf(result.completion()), ElementsAreArray(FortyExpected()));
  EXPECT_EQ(result.ChunkText(), server.model().text.tokenizer()->Decode(FortyExpected(), /*skip_special=*/true));
  EXPECT_EQ(result.completion().text(), result.ChunkText());
  EXPECT_EQ(result.completion().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(result.complete->usage().prompt_tokens(), 3u);
  EXPECT_EQ(result.complete->usage().completion_tokens(), 40u);
  EXPECT_EQ(result.complete->seed(), kSeed);
  EXPECT_TRUE(result.complete->timings().has_first_token());
}

TEST(Generate, AnswersOnceWithTheSameWords) {
  TestServer server;
  v1::GenerateRequest request = FortyTokens();
  const GenerateResult stream = server.Generate(request);
  request.set_stream(false);
  const GenerateResult single = server.Generate(request);
  ASSERT_TRUE(single.status.ok());
  EXPECT_THAT(single.chunks, IsEmpty());
  EXPECT_EQ(single.completion().text(), stream.completion().text());
  EXPECT_EQ(IdsOf(single.completion()), IdsOf(stream.completion()));
}

TEST(Generate, EqualsItsSoloRunAmongSixteenOthers) {
  TestServer server;
  std::vector<GenerateResult> results(16);
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < 16; ++i) {
    clients.emplace_back([&, i] {
      v1::GenerateRequest request = FortyTokens();
      request.mutable_token_ids()->add_ids(i);
      request.mutable_stopping()->set_max_tokens(10 + 7 * i);
      results[i] = server.Generate(request);
    });
  }
  for (std::thread& client : clients) client.join();
  for (std::uint32_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(results[i].status.ok());
    EXPECT_EQ(results[i].ChunkTokenIds(), FakeContinuation({5, 6, 7, i}, kSeed, kTestVocabulary, 10 + 7 * i));
  }
}

TEST(Generate, TakesTextAndChat) {
  TestServer server;
  for (const char* input : {"text: 'Hello there'", "chat { messages { role: 'user' content: 'Hi there!' } }"}) {
    v1::GenerateRequest request = GenerateRequestFrom(input);
    request.mutable_stopping()->set_max_tokens(3);
    const GenerateResult result = server.Generate(request);
    ASSERT_TRUE(result.status.ok()) << input << ": " << result.status.error_message();
    EXPECT_GT(result.complete->usage().prompt_tokens(), 1u);
  }
}

TEST(Generate, ServesIdsWithoutText) {
  TestServer server({.model = IdsOnlyTestModel()});
  const GenerateResult result = server.Generate(FortyTokens());
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.ChunkTokenIds(), FortyExpected());
  EXPECT_EQ(result.ChunkText(), "");
}

TEST(Generate, EndsAtAStopToken) {
  TestServer server;
  v1::GenerateRequest request = FortyTokens();
  request.mutable_stopping()->add_stop_token_ids(FortyExpected()[5]);
  const GenerateResult result = server.Generate(request);
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.completion().finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(result.completion().matched_stop_token_id(), FortyExpected()[5]);
  EXPECT_EQ(result.ChunkTokenIds().back(), FortyExpected()[5]);
  EXPECT_EQ(result.completion().text(), result.ChunkText());
}

// A few bytes from the middle of `text`, of whole code points.
std::string PieceOf(const std::string& text) {
  const auto boundary = [&text](std::size_t at) {
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    return at;
  };
  const std::size_t begin = boundary(text.size() / 2);
  return text.substr(begin, boundary(begin + 4) - begin);
}

TEST(Generate, EndsAtAStopString) {
  TestServer server;
  const Tokenizer& tokenizer = *server.model().text.tokenizer();
  const std::string whole = tokenizer.Decode(FortyExpected(), /*skip_special=*/true);
  const std::string stop = PieceOf(whole);
  v1::GenerateRequest request = FortyTokens();
  request.mutable_stopping()->add_stop("never there");
  request.mutable_stopping()->add_stop(stop);
  const GenerateResult stream = server.Generate(request);
  ASSERT_TRUE(stream.status.ok()) << stream.status.error_message();
  EXPECT_EQ(stream.completion().text(), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stream.completion().finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(stream.completion().matched_stop_string(), stop);
  EXPECT_EQ(stream.ChunkText(), stream.completion().text());
  EXPECT_EQ(stream.ChunkTokenIds(), IdsOf(stream.completion()));
  EXPECT_LT(stream.ChunkTokenIds().size(), 40u);
  EXPECT_THAT(tokenizer.Decode(stream.ChunkTokenIds(), true), ::testing::HasSubstr(stop)) << "ids are all there";
  request.set_stream(false);
  EXPECT_EQ(server.Generate(request).completion().SerializeAsString(), stream.completion().SerializeAsString());
  request.mutable_stopping()->set_include_stop_str_in_output(true);
  EXPECT_EQ(server.Generate(request).completion().text(), whole.substr(0, whole.find(stop)) + stop);
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(Generate, EchoesThePromptBeforeTheText) {
  TestServer server;
  v1::GenerateRequest request = FortyTokens();
  request.set_text("Hello there");
  const GenerateResult plain = server.Generate(request);
  request.mutable_output()->set_echo(true);
  const GenerateResult echo = server.Generate(request);
  ASSERT_TRUE(echo.status.ok()) << echo.status.error_message();
  EXPECT_EQ(echo.completion().text(), "Hello there" + plain.completion().text());
  EXPECT_EQ(echo.ChunkText(), echo.completion().text());
  EXPECT_EQ(IdsOf(echo.completion()), IdsOf(plain.completion()));
}

TEST(Generate, GivesSeveralContinuationsByIndex) {
  TestServer server;
  v1::GenerateRequest request = FortyTokens();
  request.mutable_sampling()->set_n(3);
  const GenerateResult stream = server.Generate(request);
  ASSERT_TRUE(stream.status.ok()) << stream.status.error_message();
  ASSERT_EQ(stream.complete->completions_size(), 3);
  EXPECT_EQ(stream.complete->usage().prompt_tokens(), 3u);
  EXPECT_EQ(stream.complete->usage().completion_tokens(), 120u);
  for (std::uint32_t index = 0; index < 3; ++index) {
    const v1::Completion& completion = stream.complete->completions(static_cast<int>(index));
    EXPECT_EQ(completion.index(), index);
    EXPECT_EQ(IdsOf(completion), FakeContinuation({5, 6, 7}, kSeed, kTestVocabulary, 40, index));
    std::string text;
    for (const v1::Chunk& chunk : stream.chunks) text += chunk.index() == index ? chunk.text() : "";
    EXPECT_EQ(completion.text(), text);
  }
  request.set_stream(false);
  const GenerateResult single = server.Generate(request);
  for (int index = 0; index < 3; ++index) {
    EXPECT_EQ(single.complete.value().completions(index).SerializeAsString(),
              stream.complete->completions(index).SerializeAsString());
  }
}

TEST(Generate, EndsEachContinuationAtItsOwnStopString) {
  TestServer server;
  const Tokenizer& tokenizer = *server.model().text.tokenizer();
  const std::string first = tokenizer.Decode(FortyExpected(), /*skip_special=*/true);
  v1::GenerateRequest request = FortyTokens();
  request.mutable_sampling()->set_n(2);
  request.mutable_stopping()->add_stop(PieceOf(first));
  const GenerateResult result = server.Generate(request);
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.complete->completions(0).finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(result.complete->completions(1).finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(result.complete->completions(1).token_ids_size(), 40);
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(Generate, EndsNormallyAtItsTimeLimit) {
  TestServer server({.group = TestGroup(absl::Milliseconds(2))});
  v1::GenerateRequest request = FortyTokens();
  request.mutable_stopping()->set_max_tokens(1000);
  request.mutable_stopping()->mutable_time_limit()->set_nanos(200'000'000);
  const GenerateResult result = server.Generate(request);
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.completion().finish_reason(), v1::FINISH_REASON_TIME_LIMIT);
  EXPECT_LT(result.completion().token_ids_size(), 1000);
  EXPECT_EQ(result.completion().text(), result.ChunkText());
}

TEST(Generate, EndsAtTheEndOfSequenceUnlessToldToIgnoreIt) {
  ServedModel model = TextTestModel();
  model.eos_token_ids = {FortyExpected()[3]};
  TestServer server({.model = model});
  v1::GenerateRequest request = FortyTokens();
  EXPECT_EQ(server.Generate(request).ChunkTokenIds().size(), 40u);
  request.mutable_stopping()->set_ignore_eos(false);
  const GenerateResult result = server.Generate(request);
  EXPECT_EQ(result.completion().finish_reason(), v1::FINISH_REASON_EOS);
  EXPECT_EQ(result.completion().matched_stop_token_id(), FortyExpected()[3]);
}

TEST(Generate, ReturnsTheSeedItChose) {
  TestServer server;
  v1::GenerateRequest request = FortyTokens();
  request.mutable_sampling()->clear_seed();
  const GenerateResult first = server.Generate(request);
  request.mutable_sampling()->set_seed(first.complete->seed());
  EXPECT_EQ(server.Generate(request).ChunkTokenIds(), first.ChunkTokenIds());
}

TEST(Generate, GivesLogprobsWithTheirTokens) {
  TestServer server;
  v1::GenerateRequest request = FortyTokens();
  request.mutable_output()->set_logprobs(3);
  const GenerateResult result = server.Generate(request);
  ASSERT_TRUE(result.status.ok());
  for (const v1::Chunk& chunk : result.chunks) {
    ASSERT_EQ(chunk.logprobs_size(), chunk.token_ids_size());
    for (int i = 0; i < chunk.logprobs_size(); ++i) {
      EXPECT_EQ(chunk.logprobs(i).token_id(), chunk.token_ids(i));
      EXPECT_EQ(chunk.logprobs(i).top_size(), 3);
    }
  }
}

TEST(Generate, GivesLogprobsOfThePromptOnceAndBesideAnEcho) {
  TestServer server;
  v1::GenerateRequest request = FortyTokens();
  request.mutable_sampling()->set_n(2);
  request.mutable_output()->set_prompt_logprobs(2);
  request.mutable_output()->set_echo(true);
  const GenerateResult stream = server.Generate(request);
  ASSERT_TRUE(stream.status.ok()) << stream.status.error_message();
  std::vector<v1::TokenLogprob> logprobs;
  std::vector<std::uint32_t> ids;
  for (const v1::Chunk& chunk : stream.chunks) {
    EXPECT_TRUE(chunk.prompt_logprobs().empty() || (chunk.index() == 0 && ids.empty()));
    for (const v1::TokenLogprob& logprob : chunk.prompt_logprobs()) ids.push_back(logprob.token_id());
    logprobs.insert(logprobs.end(), chunk.prompt_logprobs().begin(), chunk.prompt_logprobs().end());
  }
  EXPECT_THAT(ids, ElementsAreArray({6, 7})) << "the prompt's but the first";
  EXPECT_EQ(logprobs.front().top_size(), 2);
  request.set_stream(false);
  const v1::Complete single = server.Generate(request).complete.value();
  ASSERT_EQ(single.completions(0).prompt_logprobs_size(), 2);
  EXPECT_EQ(single.completions(0).prompt_logprobs(1).SerializeAsString(), logprobs[1].SerializeAsString());
  EXPECT_EQ(single.completions(1).prompt_logprobs_size(), 0);
  EXPECT_EQ(single.completions(1).text(), stream.complete->completions(1).text());
}

TEST(Generate, RefusesASecondRequestOfTheSameId) {
  TestServer server;
  server.group().Pause();
  v1::GenerateRequest request = FortyTokens();
  request.set_request_id("twin");
  grpc::ClientContext context;
  const auto first = server.stub().Generate(&context, request);
  while (server.engine().loads().running_requests == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(server.Generate(request).status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  server.group().Resume();
  const GenerateResult result = ReadAll(*first);
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.request_id, "twin");
}

TEST(Generate, IsUnavailableWithoutAGroup) {
  TestServer server({.is_group_up = false});
  const grpc::Status status = server.Generate(FortyTokens()).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(HasRetryInfo(status));
  EXPECT_EQ(ReasonOf(status), "UNAVAILABLE");
}

TEST(Generate, IsUnavailableWhileDraining) {
  TestServer server;
  server.engine().Drain();
  const grpc::Status status = server.Generate(FortyTokens()).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(HasRetryInfo(status));
}

// A request that has given tokens to the engine's side, of which `stream` decides whether the client saw any.
grpc::Status StatusAfterLoss(bool stream) {
  TestServer server({.group = TestGroup(absl::Milliseconds(5))});
  v1::GenerateRequest request = FortyTokens();
  request.set_stream(stream);
  request.mutable_stopping()->set_max_tokens(1000);
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, request);
  v1::GenerateResponse response;
  if (stream) {
    EXPECT_TRUE(reader->Read(&response));
  }
  while (server.group().num_steps() < 5) absl::SleepFor(absl::Milliseconds(1));
  server.group().TakeDown(absl::UnavailableError("rank 1 (cpu) was killed by signal 9"), /*for_good=*/true);
  return ReadAll(*reader).status;
}

TEST(Generate, IsAbortedWhenTheGroupIsLostForGoodAfterAChunk) {
  const grpc::Status status = StatusAfterLoss(/*stream=*/true);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("rank 1 (cpu) was killed by signal 9"));
  EXPECT_FALSE(HasRetryInfo(status));
}

TEST(Generate, MayBeRetriedWhenTheGroupIsLostForGoodBeforeAnythingWasSent) {
  const grpc::Status status = StatusAfterLoss(/*stream=*/false);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("rank 1 (cpu) was killed by signal 9"));
  EXPECT_TRUE(HasRetryInfo(status));
}

TEST(Generate, GoesOnWithTheNextGroupAsIfNothingHadHappened) {
  TestServer server({.group = TestGroup(absl::Milliseconds(2))});
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, FortyTokens());
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  server.group().TakeDown(absl::UnavailableError("rank 1 (cpu) was killed by signal 9"));
  server.group().BringUp();
  const GenerateResult rest = ReadAll(*reader);
  EXPECT_TRUE(rest.status.ok()) << rest.status.error_message();
  EXPECT_EQ(IdsOf(rest.completion()), FortyExpected());
}

TEST(Generate, EndsNormallyWithWhatThereIsWhenAborted) {
  TestServer server({.group = TestGroup(absl::Milliseconds(2))});
  v1::GenerateRequest request = FortyTokens();
  request.set_request_id("mine");
  request.mutable_stopping()->set_max_tokens(1000);
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  v1::AbortRequest abort;
  abort.add_request_ids("mine");
  abort.add_request_ids("nobody's");
  abort.add_request_ids("mine");
  abort.set_reason("test");
  v1::AbortResponse aborted;
  grpc::ClientContext abort_context;
  ASSERT_TRUE(server.stub().Abort(&abort_context, abort, &aborted).ok());
  EXPECT_THAT(aborted.aborted_request_ids(), ::testing::ElementsAre("mine"));
  const GenerateResult result = ReadAll(*reader);
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.completion().finish_reason(), v1::FINISH_REASON_ABORTED);
  EXPECT_THAT(IdsOf(result.completion()), Not(IsEmpty()));
}

}  // namespace
}  // namespace trireme::server
