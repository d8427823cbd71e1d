// How trireme-server starts, refuses, drains and dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/metrics/metrics_server.h"
#include "tests/end_to_end/server_process.h"
#include "tests/server/metrics/scrape.h"

namespace trireme::end_to_end {
namespace {

using ::testing::HasSubstr;

const char* const kTinyModel = TRIREME_FIXTURES "/hf/text_llama";

bool ExitedWith(std::optional<int> status, int code) {
  return status && WIFEXITED(*status) && WEXITSTATUS(*status) == code;
}

// An open stream of a request that takes long.
struct LongStream {
  explicit LongStream(ServerProcess& server, std::uint32_t max_tokens = 1023) {
    v1::GenerateRequest request;
    request.mutable_stopping()->set_max_tokens(max_tokens);
    request.mutable_token_ids()->add_ids(1);
    request.mutable_stopping()->set_ignore_eos(true);
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(120)));
    reader = server.stub().Generate(&context, request);
    v1::GenerateResponse first;
    EXPECT_TRUE(reader->Read(&first));
  }

  grpc::Status ReadToTheEnd() {
    while (reader->Read(&last)) {
    }
    return reader->Finish();
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  v1::GenerateResponse last;
};

TEST(ServerStart, RefusesADegreeThatDoesNotFitAtOnceWithThoseThatDo) {
  const std::optional<std::string> model = DemoModel();
  if (!model) GTEST_SKIP() << "no demo model";
  const absl::Time begin = absl::Now();
  ServerProcess server(*model, {"--tp-degree", "2"});
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 1));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  EXPECT_THAT(server.WaitForLog("cannot serve").value()["error"].get<std::string>(), HasSubstr("1, 3, 9"));
  EXPECT_FALSE(server.WaitForLog("listening").has_value());
}

TEST(ServerStart, NamesAModelThatIsNotThere) {
  ServerProcess server("/no/such/model");
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 1));
  EXPECT_THAT(server.log(), HasSubstr("/no/such/model"));
}

TEST(ServerStart, NamesAPortThatIsTaken) {
  const std::unique_ptr<server::MetricsServer> taken = *server::MetricsServer::Start("127.0.0.1:0", {});
  const std::string address = absl::StrCat("127.0.0.1:", taken->port());
  for (const char* flag : {"--listen", "--metrics-listen"}) {
    ServerProcess server(kTinyModel, {flag, address});
    EXPECT_TRUE(ExitedWith(server.WaitForExit(), 1)) << flag;
    EXPECT_THAT(server.log(), HasSubstr(address)) << flag;
    EXPECT_FALSE(server.WaitForLog("worker started").has_value()) << flag;
  }
}

TEST(ServerStart, RefusesCudaByName) {
  ServerProcess server(kTinyModel, {"--device", "cuda"});
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 2));
  EXPECT_THAT(server.log(), HasSubstr("cuda"));
}

TEST(ServerLife, TellsRanksHealthAndMetrics) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2"});
  ASSERT_TRUE(server.BecomesServing());
  const v1::GetServerInfoResponse info = server.ServerInfo();
  EXPECT_EQ(info.state(), v1::SERVER_STATE_SERVING);
  EXPECT_EQ(info.tp_degree(), 2u);
  EXPECT_EQ(info.group_generation(), 1u);
  for (const v1::RankInfo& rank : info.ranks()) {
    EXPECT_EQ(rank.state(), v1::RANK_STATE_READY);
    EXPECT_GT(rank.weight_bytes(), 0u);
    EXPECT_EQ(kill(static_cast<pid_t>(rank.pid()), 0), 0);
  }
  const auto health =
      grpc::health::v1::Health::NewStub(grpc::CreateChannel(server.target(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(health->Check(&context, {}, &response).ok());
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  const server::Scrape scrape(server.metrics_port());
  EXPECT_EQ(scrape["trireme_rank_up{rank=\"1\"}"], 1);
  EXPECT_EQ(scrape["trireme_group_generation"], 1);
}

TEST(ServerLife, FinishesOpenStreamsAfterSigtermAndExitsWithZero) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2", "--drain-timeout", "200s"});
  ASSERT_TRUE(server.BecomesServing());
  LongStream stream(server);
  server.Signal(SIGTERM);
  ASSERT_TRUE(server.WaitForLog("draining").has_value());
  EXPECT_TRUE(stream.ReadToTheEnd().ok());
  EXPECT_EQ(stream.last.complete().completions(0).token_ids_size(), 1023);
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 0));
}

TEST(ServerLife, CutsStreamsOffWhenTheDrainTimeoutPasses) {
  ServerProcess server(kTinyModel, {"--drain-timeout", "0s"});
  ASSERT_TRUE(server.BecomesServing());
  LongStream stream(server);
  server.Signal(SIGTERM);
  EXPECT_EQ(stream.ReadToTheEnd().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 0));
}

TEST(ServerLife, StartsTheGroupAgainWhenAWorkerIsKilled) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2"});
  ASSERT_TRUE(server.BecomesServing());
  const auto victim = static_cast<pid_t>(server.ServerInfo().ranks(1).pid());
  LongStream stream(server);
  const absl::Time killed_at = absl::Now();
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  const grpc::Status status = stream.ReadToTheEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), HasSubstr("rank 1"));
  EXPECT_LT(absl::Now() - killed_at, absl::Seconds(2));
  ASSERT_TRUE(server.BecomesServing(/*generation=*/2));
  LongStream again(server, /*max_tokens=*/20);
  EXPECT_TRUE(again.ReadToTheEnd().ok());
  EXPECT_EQ(server.ServerInfo().group_restarts(), 1u);
  EXPECT_THAT(server.ServerInfo().last_restart_reason(), HasSubstr("rank 1"));
}

TEST(ServerLife, LeavesNoWorkerBehindWhenItIsKilled) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2"});
  ASSERT_TRUE(server.BecomesServing());
  server.Signal(SIGKILL);
  EXPECT_TRUE(server.WaitForExit().has_value());
}  // the destructor asserts that no worker is left

TEST(ServerLife, EndsAtOnceOnASecondSignal) {
  ServerProcess server(kTinyModel, {"--drain-timeout", "100s"});
  ASSERT_TRUE(server.BecomesServing());
  LongStream stream(server);
  kill(static_cast<pid_t>(server.ServerInfo().ranks(0).pid()), SIGSTOP);  // so that the stream does not end by itself
  server.Signal(SIGTERM);
  ASSERT_TRUE(server.WaitForLog("draining").has_value());
  server.Signal(SIGINT);
  EXPECT_TRUE(ExitedWith(server.WaitForExit(absl::Seconds(5)), 1));
}

}  // namespace
}  // namespace trireme::end_to_end
