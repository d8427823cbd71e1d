// Clients that leave, are late, or do not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "tests/server/service/details.h"
#include "tests/server/service/service_fixture.h"

namespace trireme::server {
namespace {

v1::GenerateRequest LongRequest() {
  return GenerateRequestFrom("token_ids { ids: [5, 6, 7] } sampling { seed: 1 } stopping { ignore_eos: true }");
}

TEST(Streams, FreeTheirBlocksWhenTheClientCancels) {
  TestServer server({.group = TestGroup(absl::Milliseconds(2))});
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, LongRequest());
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(server.BecomesIdle());
  EXPECT_LT(server.group().num_steps(), 1000u) << "the whole answer takes more";
}

// Requests that metrics say have ended so.
double NumEnded(TestServer& server, const std::string& outcome) {
  double count = 0;
  for (const prometheus::MetricFamily& family : server.metrics().registry()->Collect()) {
    if (family.name != "trireme_requests_finished_total") continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (metric.label.at(0).value == outcome) count += metric.counter.value;
    }
  }
  return count;
}

TEST(Streams, EndWhenTheirDeadlinePasses) {
  TestServer server({.group = TestGroup(absl::Milliseconds(2))});
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(100)));
  EXPECT_EQ(server.Generate(LongRequest(), &context).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(Streams, EndWhenTheirDeadlinePassesInTheQueue) {
  TestServer server;
  server.group().Pause();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(100)));
  EXPECT_EQ(server.Generate(LongRequest(), &context).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  server.group().Resume();
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(Streams, OfAClientThatDoesNotReadEndWithoutHoldingUpOthers) {
  ServiceLimits limits;
  limits.max_unread_bytes = 20'000;
  TestServer server({.limits = limits});
  // Little room in the client: what it does not read waits in the server.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  const auto stub = v1::InferenceService::NewStub(server.NewChannel(arguments));
  v1::GenerateRequest request = LongRequest();
  request.mutable_output()->set_logprobs(20);
  grpc::ClientContext context;
  const auto lazy = stub->Generate(&context, request);

  EXPECT_EQ(server.Generate(LongRequest()).ChunkTokenIds().size(), 1021u);
  EXPECT_TRUE(server.BecomesIdle());  // the lazy one was ended, although its client has read nothing yet
  const GenerateResult result = ReadAll(*lazy);
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(result.status), "SLOW_READER");
  EXPECT_LT(result.ChunkTokenIds().size(), 1021u);
  EXPECT_EQ(NumEnded(server, "resource_exhausted"), 1);
  EXPECT_EQ(NumEnded(server, "cancelled"), 0);
}

TEST(Streams, MergeTokensForAClientThatReadsSlowly) {
  TestServer server;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  const auto stub = v1::InferenceService::NewStub(server.NewChannel(arguments));
  v1::GenerateRequest request = LongRequest();
  request.mutable_output()->set_logprobs(20);
  grpc::ClientContext context;
  const auto slow = stub->Generate(&context, request);
  EXPECT_TRUE(server.BecomesIdle());  // nothing was read, and nothing waited for it
  const GenerateResult result = ReadAll(*slow);
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.ChunkTokenIds(), FakeContinuation({5, 6, 7}, 1, kTestVocabulary, 1021));
  EXPECT_LT(result.chunks.size(), 1021u);
  EXPECT_EQ(result.ChunkText(), result.completion().text());
}

// Cancels at any moment: while the request is parsed, queued, running, finishing, finished.
TEST(Streams, SurviveCancelsAtAnyMoment) {
  TestServer server({.group = TestGroup(absl::Microseconds(200))});
  constexpr int kClients = 4, kCallsEach = 150;
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&server, client] {
      std::mt19937 random(static_cast<unsigned>(client));
      for (int call = 0; call < kCallsEach; ++call) {
        grpc::ClientContext context;
        v1::GenerateRequest request = LongRequest();
        request.mutable_stopping()->set_max_tokens(1 + random() % 8);
        request.set_stream(random() % 4 != 0);
        const auto reader = server.stub().Generate(&context, request);
        absl::SleepFor(absl::Microseconds(random() % 6000));
        context.TryCancel();
        const grpc::Status status = ReadAll(*reader).status;
        EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED) << status.error_message();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(server.BecomesIdle());
  EXPECT_TRUE(server.Generate(LongRequest()).status.ok());
}

}  // namespace
}  // namespace trireme::server
