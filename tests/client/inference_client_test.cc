#include "client/inference_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/client/scripted_server.h"

namespace trireme::client {
namespace {

using ::testing::ElementsAre;

ClientOptions OptionsFor(const ScriptedServer& server) {
  ClientOptions options;
  options.target = server.target();
  options.retry_delay = absl::Milliseconds(1);
  return options;
}

const grpc::Status kUnavailable(grpc::StatusCode::UNAVAILABLE, "loading");

// What came of a call to Generate.
struct Outcome {
  absl::Status status;
  std::vector<std::string> texts;
};

Outcome Generate(InferenceClient& client, const CallOptions& call = {}) {
  Outcome outcome;
  outcome.status = client.Generate(v1::GenerateRequest(), call, [&](const v1::GenerateResponse& response) {
    outcome.texts.push_back(response.has_chunk() ? response.chunk().text() : "complete");
  });
  return outcome;
}

TEST(InferenceClient, HandsOnEachMessageInOrder) {
  ScriptedServer server(SayHello);
  InferenceClient client(OptionsFor(server));
  const Outcome outcome = Generate(client);
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_THAT(outcome.texts, ElementsAre("Hello", " world", "complete"));
}

TEST(InferenceClient, TriesAgainWhenUnavailableAndNothingCame) {
  ScriptedServer server([](int call, grpc::ServerContext* context, Writer* writer) {
    return call < 3 ? kUnavailable : SayHello(call, context, writer);
  });
  InferenceClient client(OptionsFor(server));
  const Outcome outcome = Generate(client);
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_THAT(outcome.texts, ElementsAre("Hello", " world", "complete"));
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(InferenceClient, GivesUpAfterTheLastAttempt) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer*) { return kUnavailable; });
  InferenceClient client(OptionsFor(server));
  EXPECT_EQ(Generate(client).status, absl::UnavailableError("loading"));
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(InferenceClient, NeverTriesAgainOnceSomethingCame) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer* writer) {
    writer->Write(ChunkOf("Hello", 10));
    return kUnavailable;
  });
  InferenceClient client(OptionsFor(server));
  const Outcome outcome = Generate(client);
  EXPECT_EQ(outcome.status, absl::UnavailableError("loading"));
  EXPECT_THAT(outcome.texts, ElementsAre("Hello"));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(InferenceClient, NeverTriesAgainAfterAnotherError) {
  for (const grpc::StatusCode code : {grpc::StatusCode::ABORTED, grpc::StatusCode::RESOURCE_EXHAUSTED,
                                      grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::INTERNAL}) {
    ScriptedServer server([code](int, grpc::ServerContext*, Writer*) { return grpc::Status(code, "no"); });
    InferenceClient client(OptionsFor(server));
    EXPECT_EQ(Generate(client).status, absl::Status(static_cast<absl::StatusCode>(code), "no"));
    EXPECT_EQ(server.requests().size(), 1u);
  }
}

TEST(InferenceClient, WaitsAsLongAsTheServerSays) {
  ScriptedServer server([](int call, grpc::ServerContext* context, Writer* writer) {
    if (call > 0) return SayHello(call, context, writer);
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(50'000'000);
    google::rpc::Status details;
    details.add_details()->PackFrom(retry);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "loading", details.SerializeAsString());
  });
  ClientOptions options = OptionsFor(server);
  options.retry_delay = absl::Seconds(1000);
  InferenceClient client(options);
  const absl::Time start = absl::Now();
  EXPECT_EQ(Generate(client).status, absl::OkStatus());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(50));
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

TEST(InferenceClient, EndsAtTheDeadline) {
  ScriptedServer server(SayHelloAndHang);
  InferenceClient client(OptionsFor(server));
  const Outcome outcome = Generate(client, {.deadline = absl::Now() + absl::Seconds(1)});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(outcome.texts, ElementsAre("Hello"));
}

TEST(InferenceClient, DoesNotWaitForARetryBeyondTheDeadline) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer*) { return kUnavailable; });
  ClientOptions options = OptionsFor(server);
  options.retry_delay = absl::Seconds(1000);
  InferenceClient client(options);
  EXPECT_EQ(Generate(client, {.deadline = absl::Now() + absl::Seconds(20)}).status, absl::UnavailableError("loading"));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(InferenceClient, EndsWhenCancelledFromAnotherThread) {
  ScriptedServer server(SayHelloAndHang);
  InferenceClient client(OptionsFor(server));
  Cancellation cancellation;
  std::thread canceller([&] {
    while (server.requests().empty()) absl::SleepFor(absl::Milliseconds(1));
    cancellation.Cancel();
  });
  EXPECT_EQ(Generate(client, {.cancellation = &cancellation}).status.code(), absl::StatusCode::kCancelled);
  canceller.join();
  // It stays cancelled.
  EXPECT_EQ(Generate(client, {.cancellation = &cancellation}).status.code(), absl::StatusCode::kCancelled);
}

TEST(InferenceClient, MayBeCancelledByTheReceiver) {
  ScriptedServer server(SayHelloAndHang);
  InferenceClient client(OptionsFor(server));
  Cancellation cancellation;
  const absl::Status status = client.Generate(v1::GenerateRequest(), {.cancellation = &cancellation},
                                              [&](const v1::GenerateResponse&) { cancellation.Cancel(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(InferenceClient, EndsWhenCancelledBetweenAttempts) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer*) { return kUnavailable; });
  ClientOptions options = OptionsFor(server);
  options.retry_delay = absl::Seconds(1000);
  InferenceClient client(options);
  Cancellation cancellation;
  std::thread canceller([&] {
    while (server.requests().empty()) absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(absl::Milliseconds(20));
    cancellation.Cancel();
  });
  EXPECT_EQ(Generate(client, {.cancellation = &cancellation}).status.code(), absl::StatusCode::kCancelled);
  canceller.join();
}

TEST(InferenceClient, TakesMessagesUpToItsLimitAndNoLarger) {
  ScriptedServer server([](int call, grpc::ServerContext*, Writer* writer) {
    writer->Write(ChunkOf(std::string(call == 0 ? 20 << 20 : 65 << 20, 'x'), 1));
    return grpc::Status::OK;
  });
  InferenceClient client(OptionsFor(server));
  const Outcome large = Generate(client);
  EXPECT_EQ(large.status, absl::OkStatus());
  ASSERT_EQ(large.texts.size(), 1u);
  EXPECT_EQ(large.texts[0].size(), std::size_t{20 << 20});
  EXPECT_EQ(Generate(client).status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(InferenceClient, SaysUnavailableWhereNobodyListens) {
  std::string target;
  {
    ScriptedServer server(SayHello);
    target = server.target();
  }
  ClientOptions options;
  options.target = target;
  options.retry_delay = absl::Milliseconds(1);
  InferenceClient client(options);
  EXPECT_EQ(Generate(client).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client.GetLoads({}).status().code(), absl::StatusCode::kUnavailable);
}

TEST(InferenceClient, MakesUnaryCalls) {
  ScriptedServer server(SayHello);
  InferenceClient client(OptionsFor(server));
  v1::DetokenizeRequest request;
  request.add_token_ids(5);
  const absl::StatusOr<v1::DetokenizeResponse> response = client.Detokenize(request, {});
  ASSERT_EQ(response.status(), absl::OkStatus());
  EXPECT_EQ(response->text(), "1 tokens");
  EXPECT_EQ(client.Abort(v1::AbortRequest(), {}).status(), absl::PermissionDeniedError("not yours"));
  EXPECT_EQ(client.GetLoads({}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(InferenceClient, AsksForHealth) {
  using grpc::health::v1::HealthCheckResponse;
  ScriptedServer server(SayHello);
  server.set_health({HealthCheckResponse::NOT_SERVING, HealthCheckResponse::SERVING});
  InferenceClient client(OptionsFor(server));
  EXPECT_EQ(client.CheckHealth("", {})->status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(client.CheckHealth("x", {}).status(), absl::NotFoundError("no service x"));
  std::vector<HealthCheckResponse::ServingStatus> seen;
  EXPECT_EQ(client.WatchHealth("", {}, [&](const HealthCheckResponse& change) { seen.push_back(change.status()); }),
            absl::OkStatus());
  EXPECT_THAT(seen, ElementsAre(HealthCheckResponse::NOT_SERVING, HealthCheckResponse::SERVING));
}

}  // namespace
}  // namespace trireme::client
