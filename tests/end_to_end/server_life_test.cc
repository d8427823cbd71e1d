// How trireme-server starts, refuses, drains and dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/metrics/metrics_server.h"
#include "tests/end_to_end/server_process.h"
#include "tests/server/metrics/readme_metrics.h"
#include "tests/server/metrics/scrape.h"
#include "tests/server/service/details.h"
#include "tests/support/sanitizers.h"

namespace trireme::end_to_end {
namespace {

using test_support::kSlowdown;
using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kTinyModel = TRIREME_FIXTURES "/hf/text_llama";

bool ExitedWith(std::optional<int> status, int code) {
  return status && WIFEXITED(*status) && WEXITSTATUS(*status) == code;
}

// A greedy request, which takes long unless told otherwise.
struct Stream {
  explicit Stream(ServerProcess& server, std::uint32_t max_tokens = 1023) {
    v1::GenerateRequest request;
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_max_tokens(max_tokens);
    request.mutable_token_ids()->add_ids(1);
    request.mutable_stopping()->set_ignore_eos(true);
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(120) * kSlowdown));
    reader = server.stub().Generate(&context, request);
  }

  // Waits for the first tokens.
  bool Begins() { return reader->Read(&last); }

  grpc::Status ReadToTheEnd() {
    while (reader->Read(&last)) {
    }
    return reader->Finish();
  }
  std::vector<std::uint32_t> TokenIds() const {  // once it has ended with OK
    if (last.complete().completions().empty()) return {};
    const auto& ids = last.complete().completions(0).token_ids();
    return {ids.begin(), ids.end()};
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  v1::GenerateResponse last;
};

std::vector<std::uint32_t> ShortAnswer(ServerProcess& server) {
  Stream stream(server, /*max_tokens=*/20);
  const grpc::Status status = stream.ReadToTheEnd();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(stream.TokenIds().size(), 20u);
  return stream.TokenIds();
}

std::vector<pid_t> WorkerPids(ServerProcess& server) {
  const v1::GetServerInfoResponse info = server.ServerInfo();
  std::vector<pid_t> pids;
  for (const v1::RankInfo& rank : info.ranks()) pids.push_back(static_cast<pid_t>(rank.pid()));
  return pids;
}

void ExpectGone(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) EXPECT_EQ(kill(pid, 0), -1) << pid;
}

TEST(ServerStart, RefusesADegreeThatDoesNotFitAtOnceWithThoseThatDo) {
  const std::optional<std::string> model = DemoModel();
  if (!model) GTEST_SKIP() << "no demo model";
  const absl::Time begin = absl::Now();
  ServerProcess server(*model, {"--tp-degree", "2"});
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 1));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2) * kSlowdown);
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

TEST(ServerStart, NamesAStretchThatCannotBe) {
  ServerProcess server(kTinyModel, {"--max-step-stretch", "0.5"});
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 2));
  EXPECT_THAT(server.log(), HasSubstr("--max-step-stretch: expected a number of at least 1, or off, got \"0.5\""));
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

TEST(ServerLife, ExportsTheMetricsOfTheReadme) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2", "--metrics-names", "vllm"});
  ASSERT_TRUE(server.BecomesServing());
  ShortAnswer(server);
  std::map<std::string, std::string> own;
  std::set<std::string> vllm;
  const server::Scrape scrape(server.metrics_port());
  for (const auto& [name, type] : scrape.types()) {
    if (name.starts_with("vllm:")) {
      vllm.insert(name);
    } else {
      own.emplace(name, type);
    }
  }
  EXPECT_EQ(own, server::MetricsInReadme());
  EXPECT_EQ(vllm, server::VllmNamesInReadme());
}

TEST(ServerLife, TellsWhatStepsAndCollectivesCostEachRank) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2"});
  ASSERT_TRUE(server.BecomesServing());
  ShortAnswer(server);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  for (const std::string rank : {"{rank=\"0\"}", "{rank=\"1\"}"}) {
    while (server::Scrape(server.metrics_port())["trireme_rank_steps_total" + rank] == 0 && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(20));  // the next heartbeat tells
    }
    const server::Scrape scrape(server.metrics_port());
    EXPECT_GT(scrape["trireme_rank_collectives_total" + rank], scrape["trireme_rank_steps_total" + rank]);
    EXPECT_GT(scrape["trireme_rank_collective_seconds_total" + rank], 0);
    EXPECT_LT(scrape["trireme_rank_collective_seconds_total" + rank], scrape["trireme_rank_step_seconds_total" + rank]);
    EXPECT_GE(scrape["trireme_rank_straggler_seconds_total" + rank], 0);
    EXPECT_GE(scrape["trireme_rank_heartbeat_age_seconds" + rank], 0);
  }
}

TEST(ServerLife, FinishesOpenStreamsAfterSigtermAndExitsWithZero) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2", "--drain-timeout", "200s"});
  ASSERT_TRUE(server.BecomesServing());
  Stream stream(server);
  ASSERT_TRUE(stream.Begins());
  server.Signal(SIGTERM);
  ASSERT_TRUE(server.WaitForLog("draining").has_value());
  EXPECT_TRUE(stream.ReadToTheEnd().ok());
  EXPECT_EQ(stream.TokenIds().size(), 1023u);
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 0));
}

TEST(ServerLife, CutsStreamsOffWhenTheDrainTimeoutPasses) {
  ServerProcess server(kTinyModel, {"--drain-timeout", "0s"});
  ASSERT_TRUE(server.BecomesServing());
  Stream stream(server);
  ASSERT_TRUE(stream.Begins());
  server.Signal(SIGTERM);
  EXPECT_EQ(stream.ReadToTheEnd().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 0));
}

TEST(ServerLife, GoesOnWithTheSameTokensWhenAWorkerIsKilled) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2", "--dtype", "float32"});
  ASSERT_TRUE(server.BecomesServing());
  Stream undisturbed(server);
  ASSERT_TRUE(undisturbed.ReadToTheEnd().ok());
  const std::vector<pid_t> pids = WorkerPids(server);
  Stream stream(server);
  ASSERT_TRUE(stream.Begins());
  const absl::Time killed_at = absl::Now();
  ASSERT_EQ(kill(pids.at(1), SIGKILL), 0);
  const auto lost = server.WaitForLog("worker group lost; it will be started again");
  EXPECT_LT(absl::Now() - killed_at, absl::Seconds(1) * kSlowdown);
  EXPECT_THAT(lost.value()["cause"].get<std::string>(), AllOf(HasSubstr("rank 1"), HasSubstr("SIGKILL")));
  const grpc::Status status = stream.ReadToTheEnd();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(stream.TokenIds(), undisturbed.TokenIds());
  ExpectGone(pids);
  EXPECT_EQ(server.ServerInfo().group_generation(), 2u);
  EXPECT_EQ(server.ServerInfo().group_restarts(), 1u);
  EXPECT_THAT(server.ServerInfo().last_restart_reason(), HasSubstr("rank 1"));
  EXPECT_EQ(server.ServerInfo().last_loss().rank(), 1u);
  EXPECT_EQ(server.ServerInfo().last_loss().kind(), v1::GROUP_LOSS_KIND_KILLED);
}

TEST(ServerLife, GoesOnWithTheSameTokensWhenAWorkerFreezes) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2", "--dtype", "float32"});
  ASSERT_TRUE(server.BecomesServing());
  Stream undisturbed(server);
  ASSERT_TRUE(undisturbed.ReadToTheEnd().ok());
  const std::vector<std::uint32_t> answer = ShortAnswer(server);
  const std::vector<pid_t> pids = WorkerPids(server);
  Stream stream(server);
  ASSERT_TRUE(stream.Begins());
  const absl::Time frozen_at = absl::Now();
  ASSERT_EQ(kill(pids.at(1), SIGSTOP), 0);
  Stream late(server, /*max_tokens=*/20);  // no token of its own will come from this group
  const auto lost = server.WaitForLog("worker group lost; it will be started again");
  EXPECT_LT(absl::Now() - frozen_at, absl::Seconds(10) * kSlowdown);
  EXPECT_THAT(lost.value()["cause"].get<std::string>(), AllOf(HasSubstr("rank 1"), HasSubstr("heartbeat")));
  const grpc::Status status = stream.ReadToTheEnd();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(stream.TokenIds(), undisturbed.TokenIds());
  EXPECT_TRUE(late.ReadToTheEnd().ok());
  EXPECT_EQ(late.TokenIds(), answer);
  ExpectGone(pids);
}

TEST(ServerLife, EndsItsStreamsAndItselfWhenWorkersAreLostTooOften) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2", "--max-group-restarts", "1"});
  ASSERT_TRUE(server.BecomesServing());
  ASSERT_EQ(kill(WorkerPids(server).at(1), SIGKILL), 0);
  ASSERT_TRUE(server.BecomesServing(/*generation=*/2));
  Stream stream(server);
  ASSERT_TRUE(stream.Begins());
  ASSERT_EQ(kill(WorkerPids(server).at(0), SIGKILL), 0);
  const grpc::Status status = stream.ReadToTheEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("rank 0"), HasSubstr("SIGKILL")));
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 1));
}

TEST(ServerLife, SaysSoIfItsWorkersAreLostForGoodInADrain) {
  ServerProcess server(kTinyModel, {"--tp-degree", "2", "--max-group-restarts", "1", "--drain-timeout", "100s"});
  ASSERT_TRUE(server.BecomesServing());
  ASSERT_EQ(kill(WorkerPids(server).at(1), SIGKILL), 0);
  ASSERT_TRUE(server.BecomesServing(/*generation=*/2));
  const std::vector<pid_t> pids = WorkerPids(server);
  Stream stream(server);
  ASSERT_TRUE(stream.Begins());
  server.Signal(SIGTERM);
  ASSERT_TRUE(server.WaitForLog("draining").has_value());
  ASSERT_EQ(kill(pids.at(0), SIGKILL), 0);
  EXPECT_EQ(stream.ReadToTheEnd().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(ExitedWith(server.WaitForExit(), 1));
  EXPECT_THAT(server.WaitForLog("cannot serve").value()["error"].get<std::string>(),
              AllOf(HasSubstr("rank 0"), HasSubstr("SIGKILL")));
}

TEST(ServerLife, RefusesWhatItsQueueCannotHold) {
  ServerProcess server(kTinyModel, {"--max-num-seqs", "1", "--max-queued-requests", "1"});
  ASSERT_TRUE(server.BecomesServing());
  Stream running(server);
  ASSERT_TRUE(running.Begins());
  Stream queued(server, /*max_tokens=*/1);
  while (server.Loads().waiting_requests() == 0) absl::SleepFor(absl::Milliseconds(1));
  const grpc::Status refused = Stream(server).ReadToTheEnd();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server::ReasonOf(refused), "QUEUE_FULL");
  EXPECT_TRUE(server::HasRetryInfo(refused));
  running.context.TryCancel();
  EXPECT_TRUE(queued.ReadToTheEnd().ok());
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
  Stream stream(server);
  ASSERT_TRUE(stream.Begins());
  kill(static_cast<pid_t>(server.ServerInfo().ranks(0).pid()), SIGSTOP);  // so that the stream does not end by itself
  server.Signal(SIGTERM);
  ASSERT_TRUE(server.WaitForLog("draining").has_value());
  server.Signal(SIGINT);
  EXPECT_TRUE(ExitedWith(server.WaitForExit(absl::Seconds(5) * kSlowdown), 1));
}

}  // namespace
}  // namespace trireme::end_to_end
