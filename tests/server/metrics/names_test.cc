// What is exported, by name: as README.md has it, and as Prometheus' conventions and vLLM's dashboards want it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/metrics/metrics_server.h"
#include "server/metrics/request_metrics.h"
#include "server/metrics/state_metrics.h"
#include "server/metrics/statistics_fan_out.h"
#include "server/metrics/vllm_metrics.h"
#include "tests/server/metrics/readme_metrics.h"
#include "tests/server/metrics/scrape.h"

namespace trireme::server {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

constexpr char kLabels[] = "{engine=\"0\",model_name=\"tiny\"}";

std::unique_ptr<MetricsServer> Serve(std::vector<std::shared_ptr<prometheus::Collectable>> collectables) {
  auto server = MetricsServer::Start("127.0.0.1:0", std::move(collectables));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

Scrape ScrapeOwn() {
  RequestMetrics requests;
  GroupStatus group;
  group.ranks.resize(1);
  const auto server =
      Serve({requests.registry(), std::make_shared<StateMetrics>([] { return Loads(); }, [group] { return group; })});
  return Scrape(server->port());
}

std::shared_ptr<VllmMetrics> MakeVllm(Loads loads = {}) {
  return std::make_shared<VllmMetrics>(VllmMetricsOptions{
      .model_name = "tiny", .max_model_len = 100, .kv_block_tokens = 16, .loads = [loads] { return loads; }});
}

std::set<std::string> NamesOf(const std::map<std::string, std::string>& types) {
  std::set<std::string> names;
  for (const auto& [name, type] : types) names.insert(name);
  return names;
}

TEST(MetricNames, AreThoseOfTheReadme) { EXPECT_EQ(ScrapeOwn().types(), MetricsInReadme()); }

TEST(MetricNames, FollowPrometheusConventions) {
  const Scrape scrape = ScrapeOwn();
  for (const auto& [name, type] : scrape.types()) {
    EXPECT_TRUE(absl::StartsWith(name, "trireme_")) << name;
    EXPECT_EQ(absl::EndsWith(name, "_total"), type == "counter") << name;
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(name, '_'))) {
      EXPECT_THAT((std::set<std::string>{"ms", "us", "milliseconds", "percent", "kib"}), Not(Contains(word)))
          << name << " is not in a base unit";
    }
  }
}

TEST(VllmMetrics, HaveTheNamesOfTheReadme) {
  const auto server = Serve({MakeVllm()});
  EXPECT_EQ(NamesOf(Scrape(server->port()).types()), VllmNamesInReadme());
}

TEST(VllmMetrics, HaveLabelsThatDashboardsSelectBy) {
  const auto server = Serve({MakeVllm()});
  const Scrape scrape(server->port());
  for (const auto& [series, value] : scrape.series()) {
    EXPECT_TRUE(absl::StrContains(series, "model_name=\"tiny\"") && absl::StrContains(series, "engine=\"0\""))
        << series;
  }
}

TEST(VllmMetrics, TellWhatIsTheCase) {
  const auto server = Serve({MakeVllm({.running_requests = 1,
                                       .waiting_requests = 2,
                                       .running_sequences = 3,
                                       .waiting_sequences = 4,
                                       .used_kv_blocks = 5,
                                       .total_kv_blocks = 20,
                                       .preemptions = 6})});
  const Scrape scrape(server->port());
  const auto value = [&scrape](const char* name) { return scrape[absl::StrCat(name, kLabels)]; };
  EXPECT_EQ(value("vllm:num_requests_running"), 3) << "a request of n sequences is n of vLLM's";
  EXPECT_EQ(value("vllm:num_requests_waiting"), 4);
  EXPECT_EQ(value("vllm:kv_cache_usage_perc"), 0.25) << "a share, whatever its name says";
  EXPECT_EQ(value("vllm:gpu_cache_usage_perc"), 0.25);
  EXPECT_EQ(value("vllm:num_preemptions_total"), 6);
  EXPECT_EQ(scrape["vllm:cache_config_info{engine=\"0\",model_name=\"tiny\",block_size=\"16\",num_gpu_blocks=\"20\","
                   "enable_prefix_caching=\"True\"}"],
            1);
}

TEST(VllmMetrics, UseNoShareOfACacheThatIsNotThere) {
  const auto server = Serve({MakeVllm()});
  EXPECT_EQ(Scrape(server->port())[absl::StrCat("vllm:kv_cache_usage_perc", kLabels)], 0);
}

TEST(VllmMetrics, CountEveryEndUnderOneOfItsReasons) {
  const auto metrics = MakeVllm();
  for (const char* outcome : {"eos", "stop", "stop", "length", "time_limit", "abort", "cancelled", "deadline_exceeded",
                              "internal", "aborted", "unavailable"}) {
    metrics->OnRequestEnd({.outcome = outcome, .timings = {}});
  }
  const auto server = Serve({metrics});
  const Scrape scrape(server->port());
  const auto count = [&scrape](const char* reason) {
    return scrape[absl::StrCat("vllm:request_success_total{engine=\"0\",finished_reason=\"", reason,
                               "\",model_name=\"tiny\"}")];
  };
  EXPECT_EQ(count("stop"), 3);
  EXPECT_EQ(count("length"), 2);
  EXPECT_EQ(count("abort"), 3);
  EXPECT_EQ(count("error"), 3);
  EXPECT_EQ(scrape.Sum("vllm:request_success_total"), 11);
}

TEST(VllmMetrics, SayWhatOurOwnSayOfARequest) {
  RequestMetrics own;
  const auto vllm = MakeVllm();
  StatisticsFanOut both({&own, vllm.get()});
  both.OnAccepted();
  both.OnFirstToken(absl::Milliseconds(750));
  both.OnInterToken(absl::Milliseconds(125));
  both.OnStep(absl::Milliseconds(10), 9, 2);
  both.OnTokens(100, 1);
  both.OnTokens(0, 1);
  both.OnRequestEnd({.outcome = "stop",
                     .prompt_tokens = 100,
                     .cached_tokens = 64,
                     .generated_tokens = 2,
                     .max_tokens = 7,
                     .n = 3,
                     .timings = {.first_scheduled = absl::Milliseconds(250),
                                 .first_token = absl::Milliseconds(750),
                                 .finished = absl::Seconds(1)}});
  const auto server = Serve({own.registry(), vllm});
  const Scrape scrape(server->port());
  for (const char* name : {"time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
                           "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
                           "request_prompt_tokens", "request_generation_tokens"}) {
    for (const char* part : {"_sum", "_count"}) {
      EXPECT_EQ(scrape[absl::StrCat("vllm:", name, part, kLabels)], scrape[absl::StrCat("trireme_", name, part)])
          << name;
    }
  }
  for (const char* name : {"prompt_tokens_total", "generation_tokens_total"}) {
    EXPECT_EQ(scrape[absl::StrCat("vllm:", name, kLabels)], scrape[absl::StrCat("trireme_", name)]) << name;
  }
  EXPECT_EQ(scrape[absl::StrCat("vllm:time_per_output_token_seconds_sum", kLabels)], 0.125);
  EXPECT_EQ(scrape[absl::StrCat("vllm:request_inference_time_seconds_sum", kLabels)], 0.75);
  EXPECT_EQ(scrape[absl::StrCat("vllm:prefix_cache_queries_total", kLabels)], 100);
  EXPECT_EQ(scrape[absl::StrCat("vllm:prefix_cache_hits_total", kLabels)], 64);
  EXPECT_EQ(scrape[absl::StrCat("vllm:request_params_max_tokens_sum", kLabels)], 7);
  EXPECT_EQ(scrape[absl::StrCat("vllm:request_params_n_sum", kLabels)], 3);
  EXPECT_EQ(scrape[absl::StrCat("vllm:iteration_tokens_total_sum", kLabels)], 9);
}

TEST(VllmMetrics, HaveItsBuckets) {
  const auto server = Serve({MakeVllm()});  // of at most 100 tokens
  const Scrape scrape(server->port());
  const auto bounds = [&scrape](const std::string& name) {
    std::vector<std::string> found;
    for (const auto& [series, value] : scrape.series()) {
      if (!absl::StartsWith(series, absl::StrCat(name, "_bucket"))) continue;
      const std::size_t begin = series.find("le=\"") + 4;
      found.push_back(series.substr(begin, series.find('"', begin) - begin));
    }
    return found;
  };
  EXPECT_THAT(bounds("vllm:request_prompt_tokens"),
              UnorderedElementsAreArray({"1", "2", "5", "10", "20", "50", "100", "+Inf"}));
  EXPECT_THAT(bounds("vllm:request_params_n"), UnorderedElementsAreArray({"1", "2", "5", "10", "20", "+Inf"}));
  EXPECT_THAT(
      bounds("vllm:inter_token_latency_seconds"),
      UnorderedElementsAreArray({"0.01", "0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5",
                                 "0.75", "1",     "2.5",  "5",     "7.5", "10",   "20",  "40",  "80",  "+Inf"}));
  EXPECT_EQ(bounds("vllm:time_to_first_token_seconds").size(), 23u);
  EXPECT_EQ(bounds("vllm:e2e_request_latency_seconds").size(), 22u);
}

}  // namespace
}  // namespace trireme::server
