// What the log tells of requests: their ids, their ends and figures, and nothing of what they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/logging.h"
#include "tests/server/service/service_fixture.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// Everything is logged, as JSON, and kept.
class RequestLogTest : public testing::Test {
 protected:
  RequestLogTest() {
    SetUpLogging(LogFormat::kJson, "test", LogLevel::kDebug);
    testing::internal::CaptureStderr();
  }
  ~RequestLogTest() override {
    if (server_) Log();
    SetUpLogging(LogFormat::kText, "test");
  }

  TestServer& server() { return *server_; }

  // The server ends first: so all calls are over, and logged.
  std::string Log() {
    server_.reset();
    return testing::internal::GetCapturedStderr();
  }

  static std::vector<nlohmann::json> LinesOf(const std::string& log, const std::string& message) {
    std::istringstream stream(log);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(stream, line);) {
      nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (parsed.is_object() && parsed["message"] == message) lines.push_back(std::move(parsed));
    }
    return lines;
  }

  // The end of the only call.
  nlohmann::json End() {
    const std::vector<nlohmann::json> ends = LinesOf(Log(), "request ended");
    EXPECT_EQ(ends.size(), 1u);
    return ends.empty() ? nlohmann::json() : ends.front();
  }

 private:
  std::optional<TestServer> server_{std::in_place};
};

TEST_F(RequestLogTest, TellsTheEndInFigures) {
  const auto request = GenerateRequestFrom(
      "request_id: 'mine' token_ids { ids: [1, 2, 3] } sampling { n: 2 } stopping { max_tokens: 5 ignore_eos: true }");
  ASSERT_TRUE(server().Generate(request).status.ok());
  const nlohmann::json end = End();
  EXPECT_EQ(end["level"], "INFO");
  EXPECT_EQ(end["request_id"], "mine");
  EXPECT_EQ(end["outcome"], "length");
  EXPECT_EQ(end["code"], "OK");
  EXPECT_EQ(end["prompt_tokens"], 3);
  EXPECT_EQ(end["cached_tokens"], 0);
  EXPECT_EQ(end["generated_tokens"], 10);
  EXPECT_GT(end["ttft_ms"], 0.0);
  EXPECT_GE(end["total_ms"], end["ttft_ms"]);
  EXPECT_FALSE(end.contains("trace_id"));
  EXPECT_FALSE(end.contains("error"));
}

TEST_F(RequestLogTest, TellsTheBeginningToThoseWhoDebug) {
  const auto request =
      GenerateRequestFrom("request_id: 'mine' token_ids { ids: [1, 2, 3] } stopping { max_tokens: 5 }");
  ASSERT_TRUE(server().Generate(request).status.ok());
  const std::vector<nlohmann::json> begun = LinesOf(Log(), "request accepted");
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0]["level"], "DEBUG");
  EXPECT_EQ(begun[0]["request_id"], "mine");
  EXPECT_EQ(begun[0]["prompt_tokens"], 3);
  EXPECT_EQ(begun[0]["max_tokens"], 5);
  EXPECT_EQ(begun[0]["n"], 1);
}

TEST_F(RequestLogTest, NamesTheIdThatTheServerChose) {
  const GenerateResult result =
      server().Generate(GenerateRequestFrom("token_ids { ids: 1 } stopping { max_tokens: 1 ignore_eos: true }"));
  EXPECT_NE(result.request_id, "");
  EXPECT_EQ(End()["request_id"], result.request_id);
}

TEST_F(RequestLogTest, TellsWhyARequestWasRefusedButNotWhatItSaid) {
  server().Generate(GenerateRequestFrom("request_id: 'bad' text: 'secret' sampling { temperature: -1 }"));
  const std::string log = Log();
  const std::vector<nlohmann::json> ends = LinesOf(log, "request ended");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0]["request_id"], "bad");
  EXPECT_EQ(ends[0]["outcome"], "invalid_argument");
  EXPECT_EQ(ends[0]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(ends[0]["reason"], "INVALID_REQUEST");
  EXPECT_EQ(ends[0]["prompt_tokens"], 0);
  EXPECT_FALSE(ends[0].contains("ttft_ms"));
  EXPECT_THAT(log, Not(HasSubstr("secret")));
  EXPECT_THAT(log, Not(HasSubstr("temperature"))) << "what is wrong with it is the client's to know";
}

TEST_F(RequestLogTest, NamesRefusedRequestsThatNameThemselvesNotOrBadly) {
  server().Generate(GenerateRequestFrom("text: 'x' sampling { temperature: -1 }"));
  v1::GenerateRequest badly_named = GenerateRequestFrom("token_ids { ids: 1 }");
  badly_named.set_request_id(std::string(129, 'i'));
  server().Generate(badly_named);
  std::set<std::string> ids;
  for (const nlohmann::json& end : LinesOf(Log(), "request ended")) ids.insert(end["request_id"]);
  EXPECT_EQ(ids.size(), 2u);
  for (const std::string& id : ids) EXPECT_THAT(id, ::testing::StartsWith("generate-"));
}

TEST_F(RequestLogTest, KeepsNoPromptNoOutputAndNoStopString) {
  const GenerateResult result = server().Generate(GenerateRequestFrom(
      "text: 'the secret prompt' stopping { max_tokens: 8 ignore_eos: true stop: 'a hidden stop' }"));
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  const std::string log = Log();
  for (const std::string said : {"secret", "prompt'", "hidden"}) EXPECT_THAT(log, Not(HasSubstr(said)));
  ASSERT_FALSE(result.completion().text().empty());
  EXPECT_THAT(log, Not(HasSubstr(result.completion().text())));
}

TEST_F(RequestLogTest, TellsTheTextOfFaultsThatAreTheServers) {
  server().group().TakeDown(absl::UnavailableError("rank 1 was killed"), /*for_good=*/true);
  const auto request = GenerateRequestFrom("token_ids { ids: 1 }");
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (server().Generate(request).status.ok() && absl::Now() < deadline) continue;
  const std::vector<nlohmann::json> ends = LinesOf(Log(), "request ended");
  ASSERT_FALSE(ends.empty());
  EXPECT_EQ(ends.back()["code"], "UNAVAILABLE");
  EXPECT_THAT(ends.back()["error"].get<std::string>(), HasSubstr("rank 1 was killed"));
}

TEST_F(RequestLogTest, TellsOfACancelWithWhatHadCome) {
  server().group().Pause(3);
  grpc::ClientContext context;
  const auto reader = server().stub().Generate(
      &context, GenerateRequestFrom("token_ids { ids: [1, 2] } stopping { max_tokens: 400 ignore_eos: true }"));
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(server().engine().WaitUntilIdle(absl::Now() + absl::Seconds(30)));
  server().group().Resume();
  const nlohmann::json end = End();
  EXPECT_EQ(end["outcome"], "cancelled");
  EXPECT_EQ(end["code"], "CANCELLED");
  EXPECT_GE(end["generated_tokens"], 1);
  EXPECT_LE(end["generated_tokens"], 3);
}

TEST_F(RequestLogTest, JoinsALineToTheTraceOfItsClient) {
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kTraceparent);
  const auto request = GenerateRequestFrom("token_ids { ids: 1 } stopping { max_tokens: 1 ignore_eos: true }");
  ASSERT_TRUE(server().Generate(request, &context).status.ok());
  const std::string log = Log();
  for (const char* message : {"request accepted", "request ended"}) {
    const std::vector<nlohmann::json> lines = LinesOf(log, message);
    ASSERT_EQ(lines.size(), 1u) << message;
    EXPECT_EQ(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
  }
}

TEST_F(RequestLogTest, KnowsNoTraceIfItsParentIsInvalidOrThereAreTwo) {
  const auto request = GenerateRequestFrom("token_ids { ids: 1 } stopping { max_tokens: 1 ignore_eos: true }");
  grpc::ClientContext invalid;
  invalid.AddMetadata("traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01");
  ASSERT_TRUE(server().Generate(request, &invalid).status.ok());
  grpc::ClientContext two;
  two.AddMetadata("traceparent", kTraceparent);
  two.AddMetadata("traceparent", kTraceparent);
  ASSERT_TRUE(server().Generate(request, &two).status.ok());
  const std::vector<nlohmann::json> ends = LinesOf(Log(), "request ended");
  ASSERT_EQ(ends.size(), 2u);
  for (const nlohmann::json& end : ends) EXPECT_FALSE(end.contains("trace_id")) << end;
}

}  // namespace
}  // namespace trireme::server
