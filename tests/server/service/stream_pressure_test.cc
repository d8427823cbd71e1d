// Clients that leave, are late, or do not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/mutex.h"
#include "server/engine/statistics.h"
#include "tests/server/service/details.h"
#include "tests/server/service/service_fixture.h"

namespace trireme::server {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;

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

// Little room in the client: what it does not read waits in the server.
std::unique_ptr<v1::InferenceService::Stub> StubWithLittleRoom(TestServer& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  return v1::InferenceService::NewStub(server.NewChannel(arguments));
}

TEST(Streams, OfAClientThatReadsNoErrorAreLetGo) {
  ServiceLimits limits;
  limits.max_unread_bytes = 20'000;
  limits.error_patience = absl::Milliseconds(100);
  TestServer server({.limits = limits});
  const auto stub = StubWithLittleRoom(server);
  v1::GenerateRequest request = LongRequest();
  request.mutable_output()->set_logprobs(20);
  grpc::ClientContext context;
  const auto lazy = stub->Generate(&context, request);
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (NumEnded(server, "resource_exhausted") == 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(NumEnded(server, "resource_exhausted"), 1);
  EXPECT_TRUE(server.ClosesAllCalls());
  EXPECT_FALSE(ReadAll(*lazy).status.ok());
}

TEST(Streams, OfAClientThatDoesNotReadEndWithoutHoldingUpOthers) {
  ServiceLimits limits;
  limits.max_unread_bytes = 20'000;
  TestServer server({.limits = limits});
  const auto stub = StubWithLittleRoom(server);
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
  const auto stub = StubWithLittleRoom(server);
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

// Holds the text thread that refuses the first call until it is let go.
class HoldingStatistics final : public ServiceStatistics {
 public:
  void OnRefused(std::string_view code) override {
    MutexLock lock(mutex_);
    refused_.emplace_back(code);
    changed_.SignalAll();
    while (refused_.size() == 1 && !is_let_go_ && changed_.WaitUntil(mutex_, Deadline())) {
    }
  }
  void OnFailure(std::string_view code, std::string_view) override {
    MutexLock lock(mutex_);
    failed_.emplace_back(code);
    changed_.SignalAll();
  }
  void LetGo() {
    MutexLock lock(mutex_);
    is_let_go_ = true;
    changed_.SignalAll();
  }
  // Of so many calls, once there are as many.
  std::vector<std::string> Refused(std::size_t count) { return WaitFor(refused_, count); }
  std::vector<std::string> Failed(std::size_t count) { return WaitFor(failed_, count); }

 private:
  static absl::Time Deadline() { return absl::Now() + absl::Seconds(20); }

  std::vector<std::string> WaitFor(const std::vector<std::string>& codes, std::size_t count) {
    const absl::Time deadline = Deadline();
    MutexLock lock(mutex_);
    while (codes.size() < count && changed_.WaitUntil(mutex_, deadline)) {
    }
    return codes;
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> refused_, failed_;
  bool is_let_go_ = false;
};

TEST(Streams, ThatEndWhileTheyWaitForATextThreadAreNotLookedAt) {
  HoldingStatistics statistics;
  ServiceLimits limits;
  limits.num_text_threads = 1;
  TestServer server({.limits = limits, .statistics = &statistics});
  const v1::GenerateRequest wrong = GenerateRequestFrom("sampling { temperature: -1 }");
  grpc::ClientContext first, cancelled, late;
  const auto first_reader = server.stub().Generate(&first, wrong);
  EXPECT_THAT(statistics.Refused(1), ElementsAre("invalid_argument"));
  const auto cancelled_reader = server.stub().Generate(&cancelled, wrong);
  late.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(100)));
  const auto late_reader = server.stub().Generate(&late, wrong);
  // The client ends a late call as well, and may be the first.
  const auto is_gone = AnyOf("cancelled", "deadline_exceeded");
  EXPECT_THAT(statistics.Failed(1), ElementsAre(is_gone));
  cancelled.TryCancel();  // it came before the late one, on the same connection
  EXPECT_THAT(statistics.Failed(2), ElementsAre(is_gone, "cancelled"));
  statistics.LetGo();
  EXPECT_THAT(statistics.Refused(3), ElementsAre("invalid_argument", is_gone, is_gone));
  for (const auto& reader : {&first_reader, &late_reader, &cancelled_reader}) ReadAll(**reader);
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
