// Load against a server that does what the test says: what is sent when, and what is noted of it.
#include "client/bench/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "client/channel.h"
#include "tests/client/scripted_server.h"

namespace trireme::client {
namespace {

constexpr ArrivalOptions kAllAtOnce;

Workload SmallWorkload(double cancel_share = 0, std::uint32_t output_len = 4) {
  v1::GetModelInfoResponse model;
  model.set_vocab_size(100);
  model.set_max_model_len(512);
  return *Workload::Make({.input_len = {.min = 3, .max = 3},
                          .output_len = {.min = output_len, .max = output_len},
                          .cancel_share = cancel_share},
                         model);
}

std::unique_ptr<v1::InferenceService::Stub> StubFor(const ScriptedServer& server) {
  ClientOptions options;
  options.target = server.target();
  return v1::InferenceService::NewStub(MakeChannel(options));
}

LoadResult RunOn(const ScriptedServer& server, const LoadOptions& options, const Workload& workload = SmallWorkload()) {
  const auto stub = StubFor(server);
  const RunClock clock;
  CallGroup calls(stub.get(), clock);
  return RunLoad(workload, options, /*arrival_seed=*/1, clock, calls);
}

grpc::Status FourTokens(int, grpc::ServerContext* context, Writer* writer) {
  return StreamTokens(4, absl::Milliseconds(1), context, writer);
}

// Counts calls, and how many there are at a time.
class Attendance {
 public:
  void Enter() {
    ++total_;
    const int now = ++present_;
    int most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
  }
  void Leave() { --present_; }
  int total() const { return total_; }
  int most() const { return most_; }

 private:
  std::atomic<int> total_ = 0, present_ = 0, most_ = 0;
};

// Until `condition` or a minute has passed.
template <typename Condition>
void WaitFor(const Condition& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) absl::SleepFor(absl::Milliseconds(10));
}

TEST(RunLoad, NotesWhatCameOfARequest) {
  ScriptedServer server(FourTokens);
  const LoadResult result = RunOn(server, {.arrivals = kAllAtOnce, .num_requests = 1});
  EXPECT_FALSE(result.is_interrupted);
  ASSERT_EQ(result.records.size(), 1u);
  const RequestRecord& record = result.records.front();
  EXPECT_EQ(record.outcome, Outcome::kFinished);
  EXPECT_EQ(record.prompt_tokens, 3u);
  EXPECT_EQ(record.cached_tokens, 1u);
  EXPECT_EQ(record.output_tokens, 4u);
  ASSERT_EQ(record.arrivals.size(), 4u);
  EXPECT_LE(record.due, record.sent);
  EXPECT_LE(record.sent, record.arrivals.front().at);
  for (const absl::Duration gap : InterTokenGaps(record)) EXPECT_GE(gap, absl::ZeroDuration());
  EXPECT_GE(record.ended, record.sent + absl::Milliseconds(3));  // as the server slept
  EXPECT_LE(record.arrivals.back().at, record.ended);
}

TEST(RunLoad, SendsAnOpenLoopWhateverTheServerDoes) {
  constexpr int kRequests = 200;
  Attendance attendance;
  ScriptedServer server([&](int call, grpc::ServerContext* context, Writer* writer) {
    attendance.Enter();
    WaitFor([&] { return attendance.total() == kRequests || context->IsCancelled(); });
    attendance.Leave();
    return FourTokens(call, context, writer);
  });
  const LoadResult result = RunOn(server, {.arrivals = kAllAtOnce, .num_requests = kRequests});
  EXPECT_EQ(attendance.most(), kRequests);
  EXPECT_EQ(result.records.size(), 200u);
  for (const RequestRecord& record : result.records) EXPECT_EQ(record.outcome, Outcome::kFinished) << record.status;
}

TEST(RunLoad, IsDueAtTheScheduledArrivals) {
  ScriptedServer server(FourTokens);
  const ArrivalOptions options{.requests_per_second = 200};
  LoadResult result = RunOn(server, {.arrivals = options, .num_requests = 20});
  std::sort(result.records.begin(), result.records.end(), [](const auto& a, const auto& b) { return a.due < b.due; });
  ASSERT_EQ(result.records.size(), 20u);
  Arrivals arrivals(options, 1);
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.due, arrivals.Next());
    EXPECT_GE(record.sent, record.due);
  }
}

TEST(RunLoad, KeepsAClosedLoopFullAndNoFuller) {
  constexpr int kPlaces = 3;
  Attendance attendance;
  ScriptedServer server([&](int call, grpc::ServerContext* context, Writer* writer) {
    attendance.Enter();
    WaitFor([&] { return attendance.total() >= kPlaces || context->IsCancelled(); });
    const grpc::Status status = FourTokens(call, context, writer);
    attendance.Leave();
    return status;
  });
  const LoadResult result = RunOn(server, {.concurrency = kPlaces, .num_requests = 20});
  EXPECT_EQ(attendance.most(), kPlaces);
  ASSERT_EQ(result.records.size(), 20u);
  // Each but the first three is due when another ended.
  std::vector<absl::Duration> due, free(kPlaces);
  for (const RequestRecord& record : result.records) {
    due.push_back(record.due);
    free.push_back(record.ended);
  }
  free.resize(20);
  std::sort(due.begin(), due.end());
  EXPECT_EQ(due, free);
}

TEST(RunLoad, EndsAfterItsDuration) {
  ScriptedServer server(FourTokens);
  const absl::Duration duration = absl::Milliseconds(300);
  for (const bool is_open : {true, false}) {
    LoadOptions options{.concurrency = 2, .duration = duration};
    if (is_open) options.arrivals = {.requests_per_second = 50};
    const LoadResult result = RunOn(server, options);
    EXPECT_FALSE(result.records.empty());
    for (const RequestRecord& record : result.records) {
      EXPECT_LT(record.due, duration);
      EXPECT_EQ(record.outcome, Outcome::kFinished);  // what was sent may end
    }
  }
}

TEST(RunLoad, SendsNothingWhereNothingIsAskedFor) {
  ScriptedServer server(FourTokens);
  EXPECT_TRUE(RunOn(server, {.concurrency = 2, .num_requests = 0}).records.empty());
  EXPECT_TRUE(RunOn(server, {.arrivals = kAllAtOnce, .duration = absl::ZeroDuration()}).records.empty());
  EXPECT_TRUE(server.requests().empty());
}

TEST(RunLoad, NotesErrorsByTheirStatus) {
  ScriptedServer server([](int call, grpc::ServerContext*, Writer* writer) {
    if (call == 0) return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
    writer->Write(ChunkOf("Hello", 10));
    return call == 1 ? grpc::Status(grpc::StatusCode::ABORTED, "rank 2 was killed")
                     : grpc::Status::OK;  // without a last message
  });
  const LoadResult result = RunOn(server, {.concurrency = 1, .num_requests = 3});
  ASSERT_EQ(result.records.size(), 3u);
  for (const RequestRecord& record : result.records) EXPECT_EQ(record.outcome, Outcome::kFailed);
  EXPECT_EQ(result.records[0].status, absl::ResourceExhaustedError("the queue is full"));
  EXPECT_EQ(result.records[0].output_tokens, 0u);
  EXPECT_EQ(result.records[1].status, absl::AbortedError("rank 2 was killed"));
  EXPECT_EQ(result.records[1].output_tokens, 1u);
  EXPECT_EQ(result.records[2].status.code(), absl::StatusCode::kDataLoss);
}

TEST(RunLoad, EndsARequestAfterItsTimeout) {
  ScriptedServer server(SayHelloAndHang);
  const LoadResult result = RunOn(server, {.concurrency = 2, .num_requests = 3, .timeout = absl::Milliseconds(100)});
  ASSERT_EQ(result.records.size(), 3u);
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.outcome, Outcome::kFailed);
    EXPECT_EQ(record.status.code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST(RunLoad, CancelsAsPlanned) {
  ScriptedServer server(SayHelloAndHang);
  // Two tokens at most: so one is enough.
  const LoadResult result = RunOn(server, {.concurrency = 2, .num_requests = 4}, SmallWorkload(/*cancel_share=*/1, 2));
  ASSERT_EQ(result.records.size(), 4u);
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.outcome, Outcome::kCancelled);
    EXPECT_EQ(record.output_tokens, 1u);
  }
}

TEST(RunLoad, EndsAtOnceWhenInterrupted) {
  ScriptedServer server(SayHelloAndHang);
  const auto stub = StubFor(server);
  for (const bool is_open : {true, false}) {
    const RunClock clock;
    CallGroup calls(stub.get(), clock);
    std::thread interrupter([&] {
      calls.WaitUntil([](const GroupProgress& now) { return now.begun == 2; }, absl::Now() + absl::Minutes(1));
      calls.Interrupt();
    });
    LoadOptions options{.concurrency = 2};
    if (is_open) options.arrivals = {.requests_per_second = 20};
    const LoadResult result = RunLoad(SmallWorkload(), options, 1, clock, calls);
    interrupter.join();
    EXPECT_TRUE(result.is_interrupted);
    EXPECT_GE(result.records.size(), 2u);
    for (const RequestRecord& record : result.records) EXPECT_EQ(record.outcome, Outcome::kInterrupted);
  }
}

TEST(CallGroup, EndsItsCallsWhenItGoes) {
  std::atomic<int> gone = 0;
  ScriptedServer server([&](int call, grpc::ServerContext* context, Writer* writer) {
    const grpc::Status status = SayHelloAndHang(call, context, writer);
    ++gone;
    return status;
  });
  const auto stub = StubFor(server);
  {
    CallGroup calls(stub.get(), RunClock());
    for (int i = 0; i < 3; ++i) {
      calls.Start(SmallWorkload().Plan(0).request, {.timeout = absl::Minutes(5)});
    }
    calls.WaitUntil([](const GroupProgress& now) { return now.begun == 3; }, absl::Now() + absl::Minutes(1));
  }
  WaitFor([&] { return gone == 3; });
  EXPECT_EQ(gone, 3);
}

}  // namespace
}  // namespace trireme::client
