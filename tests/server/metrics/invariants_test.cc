// What users of other servers found broken: counts that contradict each other once requests are cancelled, refused or
// have several sequences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/metrics/metrics_server.h"
#include "server/metrics/request_metrics.h"
#include "server/metrics/state_metrics.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/metrics/scrape.h"
#include "tests/server/service/service_fixture.h"

namespace trireme::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

std::uint32_t Uniform(std::mt19937& random, std::uint32_t from, std::uint32_t to) {
  return std::uniform_int_distribution<std::uint32_t>(from, to)(random);
}

std::unique_ptr<MetricsServer> ServeMetricsOf(const RequestMetrics& metrics, Engine& engine) {
  const auto state = std::make_shared<StateMetrics>([&engine] { return engine.loads(); }, [] { return GroupStatus(); });
  auto server = MetricsServer::Start("127.0.0.1:0", {metrics.registry(), state});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

double Count(const Scrape& scrape, const std::string& histogram) { return scrape[histogram + "_count"]; }
double SumOf(const Scrape& scrape, const std::string& histogram) { return scrape[histogram + "_sum"]; }

void ExpectNothingIsLeft(const Scrape& scrape) {
  for (const char* gauge : {"trireme_requests_running", "trireme_requests_waiting", "trireme_sequences_running",
                            "trireme_sequences_waiting", "trireme_kv_blocks_used"}) {
    EXPECT_EQ(scrape[gauge], 0) << gauge;
  }
  EXPECT_EQ(scrape["trireme_kv_blocks_free"], scrape["trireme_kv_blocks_capacity"]);
}

// What the observers of requests saw.
struct Seen {
  std::uint64_t requests = 0, answered = 0, answered_sequences = 0, prompt_tokens = 0, generated_tokens = 0;
  std::map<std::string, std::uint64_t> errors;  // by code

  void Add(const Request& request, const Recorder& recorder) {
    std::uint64_t tokens = 0;
    for (std::uint32_t index = 0; index < request.n; ++index) {
      tokens += recorder.tokens(index).size();
      answered_sequences += !recorder.tokens(index).empty();
    }
    ++requests;
    answered += tokens > 0;
    generated_tokens += tokens;
    if (tokens > 0) prompt_tokens += request.prompt.size();
    if (!recorder.status().ok()) {
      ++errors[absl::AsciiStrToLower(absl::StatusCodeToString(recorder.status().code()))];
    }
  }
};

// Submits requests of one to three sequences, and cancels, aborts or awaits each.
void EngineClient(EngineOverFake* fake, std::uint32_t client,
                  std::vector<std::pair<Request, std::shared_ptr<Recorder>>>* done) {
  std::mt19937 random(client);
  for (std::uint32_t i = 0; i < 60; ++i) {
    Request request =
        MakeRequest(absl::StrCat(client, ".", i), Prompt(Uniform(random, 1, 20)), Uniform(random, 1, 12), random());
    request.n = Uniform(random, 1, 3);
    const std::uint32_t fate = Uniform(random, 0, 5);
    if (fate == 0) request.deadline = absl::Now() + absl::Microseconds(Uniform(random, 0, 3000));
    if (fate == 1) request.time_limit = absl::Microseconds(Uniform(random, 0, 3000));
    const auto recorder = fake->Submit(request);
    if (Uniform(random, 0, 1) == 1) recorder->WaitForTokens(1);
    if (fate == 2) fake->engine.Cancel(request.id, recorder.get());
    if (fate == 3) fake->engine.Abort(request.id);
    ASSERT_TRUE(recorder->WaitForEnd());
    done->emplace_back(request, recorder);
  }
}

TEST(MetricsInvariants, HoldForRequestsOfSeveralSequencesThatEndInEveryWay) {
  RequestMetrics metrics;
  EngineOptions options = SmallEngine(2);
  options.limits.max_num_seqs = 6;
  EngineOverFake fake(options, {24}, &metrics);  // few enough blocks that some are preempted
  fake.group.BringUp();
  const auto server = ServeMetricsOf(metrics, fake.engine);
  std::array<std::vector<std::pair<Request, std::shared_ptr<Recorder>>>, 6> done;
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < done.size(); ++i) clients.emplace_back(EngineClient, &fake, i, &done[i]);
  for (std::thread& client : clients) client.join();
  ASSERT_TRUE(fake.engine.WaitUntilIdle(absl::Now() + kPatience));
  Seen seen;
  for (const auto& of_client : done) {
    for (const auto& [request, recorder] : of_client) seen.Add(request, *recorder);
  }
  const Scrape scrape(server->port());
  ExpectNothingIsLeft(scrape);
  EXPECT_EQ(scrape["trireme_requests_accepted_total"], seen.requests);
  EXPECT_EQ(scrape.Sum("trireme_requests_finished_total"), seen.requests);
  std::uint64_t num_errors = 0;
  for (const auto& [code, count] : seen.errors) {
    EXPECT_EQ(scrape[absl::StrCat("trireme_requests_finished_total{outcome=\"", code, "\"}")], count) << code;
    num_errors += count;
  }
  double finished_well = 0;
  for (const char* outcome : {"eos", "stop", "length", "time_limit", "abort"}) {
    finished_well += scrape[absl::StrCat("trireme_requests_finished_total{outcome=\"", outcome, "\"}")];
  }
  EXPECT_EQ(finished_well, seen.requests - num_errors);
  EXPECT_EQ(Count(scrape, "trireme_time_to_first_token_seconds"), seen.answered);
  EXPECT_EQ(Count(scrape, "trireme_request_prefill_time_seconds"), seen.answered);
  EXPECT_EQ(Count(scrape, "trireme_request_decode_time_seconds"), seen.answered);
  for (const char* of_all : {"trireme_e2e_request_latency_seconds", "trireme_request_queue_time_seconds",
                             "trireme_request_prompt_tokens", "trireme_request_generation_tokens"}) {
    EXPECT_EQ(Count(scrape, of_all), seen.requests) << of_all;
  }
  EXPECT_EQ(scrape["trireme_prompt_tokens_total"], seen.prompt_tokens);
  EXPECT_EQ(scrape["trireme_generation_tokens_total"], seen.generated_tokens);
  EXPECT_EQ(SumOf(scrape, "trireme_request_generation_tokens"), seen.generated_tokens);
  EXPECT_EQ(Count(scrape, "trireme_inter_token_latency_seconds"), seen.generated_tokens - seen.answered_sequences);
  EXPECT_GE(scrape["trireme_prefix_cache_queried_tokens_total"], seen.prompt_tokens);
  EXPECT_GT(scrape["trireme_prefix_cache_hit_tokens_total"], 0);
  EXPECT_LT(scrape["trireme_prefix_cache_hit_tokens_total"], scrape["trireme_prefix_cache_queried_tokens_total"]);
  EXPECT_GT(seen.errors["cancelled"] + seen.errors["deadline_exceeded"], 0u);
}

TEST(MetricsInvariants, CountSequencesThatWereResumed) {
  RequestMetrics metrics;
  EngineOverFake fake(SmallEngine(), {64}, &metrics);
  fake.group.BringUp();
  const auto server = ServeMetricsOf(metrics, fake.engine);
  fake.group.Pause(2);
  Request request = MakeRequest("a", {1, 2, 3}, 5);
  request.n = 2;
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForTokens(1, 1));
  fake.group.TakeDown(absl::UnavailableError("rank 1 died"));
  fake.group.BringUp();
  fake.group.Resume();
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status(), absl::OkStatus());
  ASSERT_TRUE(fake.engine.WaitUntilIdle(absl::Now() + kPatience));
  const Scrape scrape(server->port());
  EXPECT_EQ(scrape["trireme_resumptions_total"], 2);
  EXPECT_EQ(scrape["trireme_generation_tokens_total"], 10);
  EXPECT_EQ(Count(scrape, "trireme_time_to_first_token_seconds"), 1);
  EXPECT_EQ(scrape["trireme_requests_finished_total{outcome=\"length\"}"], 1);
}

// What the clients of the service saw.
class Clients {
 public:
  explicit Clients(TestServer* server) : server_(*server) {}

  void Run(std::uint32_t client) {
    std::mt19937 random(client);
    for (int i = 0; i < 40; ++i) CallOnce(random, absl::StrCat(client, ".", i));
  }

  double num_calls() const { return num_calls_; }
  double num_errors(grpc::StatusCode code) const { return errors_.at(code); }

 private:
  void CallOnce(std::mt19937& random, const std::string& id) {
    const std::uint32_t fate = Uniform(random, 0, 4);
    auto request = GenerateRequestFrom(absl::StrCat(
        "token_ids { ids: [", Uniform(random, 1, 400), ", 2, 3] } sampling { n: ", Uniform(random, 1, 3),
        " } stopping { max_tokens: ", Uniform(random, 1, 9), " ignore_eos: true } request_id: '", id, "'"));
    if (fate == 0) request.mutable_sampling()->set_temperature(-1);
    if (fate == 1) request.set_adapter_id("one");
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    const auto reader = server_.stub().Generate(&context, request);
    v1::GenerateResponse first;
    const bool has_begun = reader->Read(&first);  // then the engine has it: a cancel cannot come too early to count
    if (has_begun && fate == 2) context.TryCancel();
    if (has_begun && fate == 3) server_.engine().Abort(id);
    v1::GenerateResponse rest;
    while (reader->Read(&rest)) continue;
    const grpc::Status status = reader->Finish();
    ++num_calls_;
    const std::lock_guard lock(mutex_);
    ++errors_[status.error_code()];
  }

  TestServer& server_;
  std::atomic<int> num_calls_ = 0;
  std::mutex mutex_;
  std::map<grpc::StatusCode, int> errors_;
};

TEST(MetricsInvariants, EveryCallIsAcceptedOrRefusedAndEveryRefusalIsAFailure) {
  TestServer server;
  const auto metrics = ServeMetricsOf(server.metrics(), server.engine());
  Clients clients(&server);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 6; ++i) threads.emplace_back([&clients, i] { clients.Run(i); });
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(server.BecomesIdle());
  const Scrape scrape(metrics->port());
  ExpectNothingIsLeft(scrape);
  EXPECT_EQ(scrape["trireme_requests_accepted_total"] + scrape.Sum("trireme_requests_refused_total"),
            clients.num_calls());
  EXPECT_EQ(scrape.Sum("trireme_requests_finished_total"), scrape["trireme_requests_accepted_total"]);
  EXPECT_EQ(Count(scrape, "trireme_time_to_first_token_seconds"), scrape["trireme_requests_accepted_total"]);
  const double invalid = clients.num_errors(grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(scrape["trireme_requests_refused_total{code=\"invalid_argument\"}"], invalid);
  EXPECT_EQ(scrape["trireme_request_failures_total{code=\"invalid_argument\",reason=\"INVALID_REQUEST\"}"], invalid);
  const double unserved = clients.num_errors(grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(scrape["trireme_requests_refused_total{code=\"unimplemented\"}"], unserved);
  EXPECT_EQ(scrape["trireme_request_failures_total{code=\"unimplemented\",reason=\"UNSERVED_FIELD\"}"], unserved);
}

TEST(MetricsInvariants, AcceptedAreFinishedOrRunOrWait) {
  TestServer server;
  const auto metrics = ServeMetricsOf(server.metrics(), server.engine());
  const auto request = GenerateRequestFrom("token_ids { ids: 9 } stopping { max_tokens: 2 ignore_eos: true }");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(server.Generate(request).status.ok());
  server.group().Pause();
  std::vector<std::thread> clients;
  for (int i = 0; i < 5; ++i) clients.emplace_back([&] { server.Generate(request); });
  const absl::Time deadline = absl::Now() + kPatience;
  double running = 0, waiting = 0, accepted = 0, finished = 0;
  // How many run when the group stands still depends on who came first.
  while ((running == 0 || running + waiting != 5 || accepted != 8) && absl::Now() < deadline) {
    const Scrape scrape(metrics->port());
    running = scrape["trireme_requests_running"];
    waiting = scrape["trireme_requests_waiting"];
    accepted = scrape["trireme_requests_accepted_total"];
    finished = scrape.Sum("trireme_requests_finished_total");
  }
  EXPECT_EQ(running + waiting, 5);
  EXPECT_EQ(finished, 3);
  EXPECT_EQ(accepted, finished + running + waiting);
  server.group().Resume();
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace trireme::server
