#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/monotonic_clock.h"
#include "server/metrics/metrics_server.h"
#include "server/metrics/request_metrics.h"
#include "server/metrics/state_metrics.h"
#include "tests/server/metrics/scrape.h"
#include "tests/server/service/service_fixture.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<MetricsServer> Serve(std::vector<std::shared_ptr<prometheus::Collectable>> collectables) {
  auto server = MetricsServer::Start("127.0.0.1:0", std::move(collectables));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::unique_ptr<MetricsServer> ServeMetricsOf(TestServer& server) {
  return Serve({server.metrics().registry(),
                std::make_shared<StateMetrics>([&] { return server.engine().loads(); }, [] { return GroupStatus(); })});
}

TEST(MetricsServer, NamesTheAddressThatIsTaken) {
  const auto first = Serve({});
  const std::string address = absl::StrCat("127.0.0.1:", first->port());
  const auto second = MetricsServer::Start(address, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

TEST(MetricsServer, RefusesAnAddressThatIsNone) {
  EXPECT_THAT(std::string(MetricsServer::Start("no such address", {}).status().message()),
              HasSubstr("no such address"));
}

TEST(MetricsServer, ServesMetricsAndNothingElse) {
  RequestMetrics metrics;
  const auto server = Serve({metrics.registry()});
  EXPECT_EQ(Scrape(server->port()).status(), 200);
  EXPECT_EQ(Scrape(server->port(), "/secrets").status(), 404);
}

TEST(RequestMetrics, StartAtZeroSoThatRatesHaveABeginning) {
  RequestMetrics metrics;
  const auto server = Serve({metrics.registry()});
  const Scrape scrape(server->port());
  for (const char* outcome : {"eos", "stop", "length", "abort", "cancelled"}) {
    EXPECT_EQ(scrape[absl::StrCat("trireme_requests_finished_total{outcome=\"", outcome, "\"}")], 0);
  }
  EXPECT_EQ(scrape["trireme_generation_tokens_total"], 0);
  EXPECT_EQ(scrape.TypeOf("trireme_time_to_first_token_seconds"), "histogram");
  EXPECT_EQ(scrape.TypeOf("trireme_requests_accepted_total"), "counter");
}

TEST(RequestMetrics, ResolveHalfAMillisecondAndMinutes) {
  RequestMetrics metrics;
  metrics.OnInterToken(absl::Microseconds(400));
  metrics.OnInterToken(absl::Microseconds(700));
  metrics.OnInterToken(absl::Seconds(120));
  const auto server = Serve({metrics.registry()});
  const Scrape scrape(server->port());
  const std::string bucket = "trireme_inter_token_latency_seconds_bucket{le=\"";
  EXPECT_EQ(scrape[bucket + "0.0005\"}"], 1);
  EXPECT_EQ(scrape[bucket + "0.00075\"}"], 2);
  EXPECT_EQ(scrape[bucket + "100\"}"], 2);
  EXPECT_EQ(scrape[bucket + "150\"}"], 3);
  EXPECT_EQ(scrape[bucket + "+Inf\"}"], 3);
}

TEST(RequestMetrics, TellWhereTheTimeOfARequestWent) {
  RequestMetrics metrics;
  metrics.OnRequestEnd({.outcome = "stop",
                        .prompt_tokens = 100,
                        .cached_tokens = 64,
                        .generated_tokens = 7,
                        .timings = {.first_scheduled = absl::Milliseconds(250),
                                    .first_token = absl::Milliseconds(750),
                                    .finished = absl::Seconds(4)}});
  metrics.OnRequestEnd({.outcome = "cancelled", .prompt_tokens = 5, .timings = {.finished = absl::Seconds(1)}});
  const auto server = Serve({metrics.registry()});
  const Scrape scrape(server->port());
  EXPECT_EQ(scrape["trireme_request_queue_time_seconds_sum"], 1.25) << "until its end, if it was never scheduled";
  EXPECT_EQ(scrape["trireme_request_prefill_time_seconds_sum"], 0.5);
  EXPECT_EQ(scrape["trireme_request_decode_time_seconds_sum"], 3.25);
  EXPECT_EQ(scrape["trireme_e2e_request_latency_seconds_sum"], 5);
  EXPECT_EQ(scrape["trireme_request_prompt_tokens_sum"], 105);
  EXPECT_EQ(scrape["trireme_request_generation_tokens_sum"], 7);
  EXPECT_EQ(scrape["trireme_prefix_cache_queried_tokens_total"], 100) << "of those that were scheduled";
  EXPECT_EQ(scrape["trireme_prefix_cache_hit_tokens_total"], 64);
}

TEST(StateMetrics, TellWhatIsTheCaseAtEachScrape) {
  Loads loads{.running_requests = 2,
              .waiting_requests = 3,
              .running_sequences = 8,
              .waiting_sequences = 9,
              .used_kv_blocks = 4,
              .total_kv_blocks = 15,
              .preemptions = 6,
              .resumptions = 10};
  GroupStatus group;
  group.generation = 7;
  group.num_restarts = 6;
  group.is_up = true;
  group.last_loss = {{.kind = CauseKind::kKilled, .rank = 1, .status = absl::UnavailableError("killed")},
                     absl::FromUnixMillis(1500)};
  group.ranks.resize(2);
  group.ranks[0].state = RankState::kReady;
  group.ranks[1].rank = 1;
  group.ranks[1].state = RankState::kLost;
  group.ranks[0].last_heartbeat = MonotonicNow() - absl::Milliseconds(1500);
  group.ranks[1].last_heartbeat = MonotonicNow();
  group.ranks[1].last_step_finished = 20;
  group.ranks[1].times = {.steps = absl::Milliseconds(2500),
                          .num_collectives = 60,
                          .collectives = absl::Milliseconds(1250),
                          .collective_waits = absl::Milliseconds(750),
                          .lateness = absl::Milliseconds(250)};
  const auto state = std::make_shared<StateMetrics>([&] { return loads; }, [&] { return group; });
  const auto server = Serve({state});
  const Scrape scrape(server->port());
  EXPECT_EQ(scrape["trireme_requests_running"], 2);
  EXPECT_EQ(scrape["trireme_requests_waiting"], 3);
  EXPECT_EQ(scrape["trireme_kv_blocks_used"], 4);
  EXPECT_EQ(scrape["trireme_sequences_running"], 8);
  EXPECT_EQ(scrape["trireme_sequences_waiting"], 9);
  EXPECT_EQ(scrape["trireme_kv_blocks_free"], 11);
  EXPECT_EQ(scrape["trireme_kv_blocks_capacity"], 15);
  EXPECT_EQ(scrape["trireme_resumptions_total"], 10);
  EXPECT_EQ(scrape["trireme_preemptions_total"], 6);
  EXPECT_EQ(scrape["trireme_group_up"], 1);
  EXPECT_EQ(scrape["trireme_group_generation"], 7);
  EXPECT_EQ(scrape["trireme_group_restarts_total"], 6);
  EXPECT_EQ(scrape["trireme_group_last_loss_info{rank=\"1\",kind=\"killed\"}"], 1);
  EXPECT_EQ(scrape["trireme_group_last_loss_timestamp_seconds"], 1.5);
  EXPECT_EQ(scrape["trireme_rank_up{rank=\"0\"}"], 1);
  EXPECT_EQ(scrape["trireme_rank_up{rank=\"1\"}"], 0);
  EXPECT_GE(scrape["trireme_rank_heartbeat_age_seconds{rank=\"0\"}"], 1.5);
  EXPECT_EQ(scrape.series().count("trireme_rank_heartbeat_age_seconds{rank=\"1\"}"), 0u) << "it is lost";
  EXPECT_EQ(scrape["trireme_rank_steps_total{rank=\"1\"}"], 20);
  EXPECT_EQ(scrape["trireme_rank_step_seconds_total{rank=\"0\"}"], 0);
  EXPECT_EQ(scrape["trireme_rank_step_seconds_total{rank=\"1\"}"], 2.5);
  EXPECT_EQ(scrape["trireme_rank_collectives_total{rank=\"1\"}"], 60);
  EXPECT_EQ(scrape["trireme_rank_collective_seconds_total{rank=\"1\"}"], 1.25);
  EXPECT_EQ(scrape["trireme_rank_collective_wait_seconds_total{rank=\"1\"}"], 0.75);
  EXPECT_EQ(scrape["trireme_rank_straggler_seconds_total{rank=\"1\"}"], 0.25);
  loads.running_requests = 0;
  EXPECT_EQ(Scrape(server->port())["trireme_requests_running"], 0);
}

// What users of other servers found broken.
TEST(Metrics, KeepTheirInvariantsOverRequestsThatEndInEveryWay) {
  TestServer server;
  const auto metrics = ServeMetricsOf(server);
  const auto generate = [&server](const std::string& text_format) {
    return server.Generate(GenerateRequestFrom(text_format)).status;
  };
  EXPECT_TRUE(generate("token_ids { ids: [1, 2, 3] } stopping { max_tokens: 5 ignore_eos: true }").ok());
  EXPECT_TRUE(generate("token_ids { ids: [4, 5] } stopping { max_tokens: 1 ignore_eos: true }").ok());
  EXPECT_FALSE(generate("text: 'x' sampling { temperature: -1 }").ok());
  EXPECT_FALSE(generate("text: 'x' adapter_id: 'a'").ok());
  server.group().Pause();  // the next gets no token
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, GenerateRequestFrom("token_ids { ids: 9 }"));
  ASSERT_TRUE(server.BecomesBusy());
  context.TryCancel();
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(server.BecomesIdle());  // the client hears of the end before the engine ends the request
  server.group().Resume();

  const Scrape scrape(metrics->port());
  EXPECT_EQ(scrape["trireme_requests_accepted_total"], 3);
  EXPECT_EQ(scrape["trireme_requests_refused_total{code=\"invalid_argument\"}"], 1);
  EXPECT_EQ(scrape["trireme_requests_refused_total{code=\"unimplemented\"}"], 1);
  EXPECT_EQ(scrape.Sum("trireme_requests_finished_total"), 3);
  EXPECT_EQ(scrape["trireme_requests_finished_total{outcome=\"length\"}"], 2);
  EXPECT_EQ(scrape["trireme_e2e_request_latency_seconds_count"], 3);
  EXPECT_EQ(scrape["trireme_time_to_first_token_seconds_count"], 2);
  EXPECT_EQ(scrape["trireme_inter_token_latency_seconds_count"], 4);
  EXPECT_EQ(scrape["trireme_prompt_tokens_total"], 5);
  EXPECT_EQ(scrape["trireme_generation_tokens_total"], 6);
  EXPECT_EQ(scrape["trireme_requests_running"] + scrape["trireme_requests_waiting"], 0);
  EXPECT_GE(scrape["trireme_step_duration_seconds_count"], 6);
}

class IdleConnection {
 public:
  explicit IdleConnection(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~IdleConnection() { close(socket_); }
  IdleConnection(const IdleConnection&) = delete;
  IdleConnection& operator=(const IdleConnection&) = delete;

 private:
  const int socket_;
};

TEST(MetricsServer, AnswersBesideConnectionsThatAskNothing) {
  RequestMetrics metrics;
  metrics.OnAccepted();
  const auto server = Serve({metrics.registry()});
  std::vector<std::unique_ptr<IdleConnection>> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(std::make_unique<IdleConnection>(server->port()));
  EXPECT_EQ(Scrape(server->port())["trireme_requests_accepted_total"], 1);
}

TEST(Metrics, CountWhatRunsAndWaits) {
  FakeGroupOptions one_at_a_time = TestGroup();
  one_at_a_time.limits.max_num_seqs = 1;
  TestServer server({.group = one_at_a_time});
  const auto metrics = ServeMetricsOf(server);
  server.group().Pause();
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(
        [&server] { server.Generate(GenerateRequestFrom("token_ids { ids: 9 } stopping { max_tokens: 2 }")); });
  }
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  double running = 0, waiting = 0;
  while ((running != 1 || waiting != 2) && absl::Now() < deadline) {
    const Scrape scrape(metrics->port());
    running = scrape["trireme_requests_running"];
    waiting = scrape["trireme_requests_waiting"];
  }
  EXPECT_EQ(running, 1);
  EXPECT_EQ(waiting, 2);
  server.group().Resume();
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace trireme::server
