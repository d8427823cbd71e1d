#include "client/bench/serve_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "client/bench/latency_table.h"

namespace trireme::client {
namespace {

using ::testing::HasSubstr;

ServeResult SomeResult() {
  ServeResult result;
  result.target.address = "127.0.0.1:8700";
  result.target.model.set_model("tiny");
  result.target.model.set_model_type("llama");
  result.target.model.set_max_model_len(256);
  result.target.server.set_version("0.1.0");
  result.target.server.set_build_id("0.1.0+abc");
  result.target.server.set_tp_degree(2);
  result.target.server.set_dtype("float32");
  result.options.load.arrivals = {.requests_per_second = 2.5};
  result.options.load.num_requests = 4;
  result.options.service_level = ServiceLevel{.ttft = absl::Milliseconds(200)};
  LoadReport& report = result.report;
  report.sent = 4;
  report.finished = 2;
  report.failed = 1;
  report.cancelled = 1;
  report.elapsed = absl::Seconds(4);
  report.prompt_tokens = 300;
  report.cached_tokens = 16;
  report.output_tokens = 100;
  report.ttft = {.count = 2, .mean = 150, .p50 = 140, .p90 = 160, .p95 = 170, .p99 = 180, .max = 200};
  report.e2e = {.count = 2, .mean = 1500.125, .p50 = 1400, .p90 = 1600, .p95 = 1700, .p99 = 1800, .max = 2000};
  report.send_lag = {.count = 4, .mean = 0.1, .p50 = 0.1, .p90 = 0.2, .p95 = 0.2, .p99 = 0.2, .max = 0.25};
  report.good = 1;
  report.errors = {{.code = absl::StatusCode::kResourceExhausted, .count = 1, .first_message = "the queue is full"}};
  return result;
}

TEST(ShowServeResult, TellsAllToPeople) {
  EXPECT_EQ(ShowServeResult(SomeResult()),
            R"(Server       trireme-server 0.1.0 at 127.0.0.1:8700: tiny, float32, 2 ranks, at most 256 tokens
Load         open loop, 2.5 requests/s, Poisson arrivals
Workload     random prompts of 128 tokens, outputs of 64 tokens, temperature 0, seed 0
Requests     4 sent: 2 finished, 1 failed, 1 cancelled as planned
Time         4.00 s
Throughput   0.50 requests/s, 25.0 output tokens/s, 100.0 tokens/s with the prompts'
Goodput      0.25 requests/s, 33.3 % of the requests (ttft:200, in ms)
Error        RESOURCE_EXHAUSTED, 1 time: the queue is full

Milliseconds                 count      mean       p50       p90       p95       p99       max
Time to first token              2    150.00    140.00    160.00    170.00    180.00    200.00
Between tokens                   0         -         -         -         -         -         -
Per output token                 0         -         -         -         -         -         -
End to end                       2   1500.12   1400.00   1600.00   1700.00   1800.00   2000.00
Client's lag                     4      0.10      0.10      0.20      0.20      0.20      0.25
Of finished requests, from when each was due: its scheduled arrival.
)");
}

TEST(ShowServeResult, TellsOfOtherLoadsAndWorkloads) {
  ServeResult result = SomeResult();
  result.is_interrupted = true;
  result.report.interrupted = 3;
  result.options.load.arrivals->burstiness = 0.5;
  result.options.workload.ignore_eos = false;
  result.options.workload.stream = false;
  result.options.prompts_file = "prompts.jsonl";
  EXPECT_THAT(ShowServeResult(result), HasSubstr("2.5 requests/s, gamma arrivals of burstiness 0.5\n"));
  EXPECT_THAT(ShowServeResult(result), HasSubstr("3 interrupted (the run was interrupted)\n"));
  EXPECT_THAT(
      ShowServeResult(result),
      HasSubstr("prompts from prompts.jsonl, outputs of 64 tokens at most, not streamed, temperature 0, seed 0"));
  result.options.load.arrivals->requests_per_second = std::numeric_limits<double>::infinity();
  EXPECT_THAT(ShowServeResult(result), HasSubstr("open loop, all at once\n"));
  result.options.load = {.concurrency = 7};
  EXPECT_THAT(ShowServeResult(result), HasSubstr("closed loop, 7 at a time\n"));
  EXPECT_THAT(ShowServeResult(result), HasSubstr("the end of the one before it.\n"));
}

TEST(ServeResultJson, IsOneObjectAsDocumented) {
  const nlohmann::json expected = nlohmann::json::parse(R"({
    "benchmark": "serve", "client_build_id": "",
    "server": {"address": "127.0.0.1:8700", "version": "0.1.0", "build_id": "0.1.0+abc", "tp_degree": 2,
               "dtype": "float32", "model": "tiny", "model_type": "llama", "max_model_len": 256},
    "workload": {"loop": "open", "request_rate": 2.5, "burstiness": 1.0, "concurrency": null, "num_requests": 4,
                 "duration_s": null, "prompts": null, "input_len": "128", "output_len": "64", "seed": 0,
                 "temperature": 0.0, "ignore_eos": true, "stream": true, "cancel_share": 0.0, "timeout_s": 600.0,
                 "warmup": 1},
    "interrupted": false, "elapsed_s": 4.0,
    "requests": {"sent": 4, "finished": 2, "failed": 1, "cancelled": 1, "interrupted": 0},
    "tokens": {"prompt": 300, "cached": 16, "output": 100},
    "throughput": {"requests_per_s": 0.5, "output_tokens_per_s": 25.0, "total_tokens_per_s": 100.0},
    "latency_ms": {
      "ttft": {"count": 2, "mean": 150.0, "p50": 140.0, "p90": 160.0, "p95": 170.0, "p99": 180.0, "max": 200.0},
      "itl": null, "tpot": null,
      "e2e": {"count": 2, "mean": 1500.125, "p50": 1400.0, "p90": 1600.0, "p95": 1700.0, "p99": 1800.0, "max": 2000.0}},
    "send_lag_ms": {"count": 4, "mean": 0.1, "p50": 0.1, "p90": 0.2, "p95": 0.2, "p99": 0.2, "max": 0.25},
    "goodput": {"service_level": "ttft:200", "requests": 1, "requests_per_s": 0.25, "share": 0.3333333333333333},
    "errors": [{"code": "RESOURCE_EXHAUSTED", "count": 1, "first_message": "the queue is full"}]})");
  nlohmann::json told = nlohmann::json::parse(ServeResultJson(SomeResult()));
  EXPECT_EQ(told["client_build_id"], std::string(BuildId()));
  told["client_build_id"] = "";
  EXPECT_EQ(told, expected) << told.dump(1);
}

TEST(ServeResultJson, HasNullForWhatThereIsNot) {
  ServeResult result = SomeResult();
  result.options.load = {.concurrency = 7, .duration = absl::Milliseconds(2500)};
  result.options.prompts_file = "prompts.jsonl";
  result.report = {};
  result.report.errors = {{.code = absl::StatusCode::kInternal, .count = 1, .first_message = "\xff"}};
  const nlohmann::json told = nlohmann::json::parse(ServeResultJson(result));
  EXPECT_EQ(told["workload"]["loop"], "closed");
  EXPECT_EQ(told["workload"]["concurrency"], 7);
  EXPECT_EQ(told["workload"]["duration_s"], 2.5);
  EXPECT_EQ(told["workload"]["prompts"], "prompts.jsonl");
  for (const char* key : {"request_rate", "burstiness", "num_requests", "input_len"}) {
    EXPECT_TRUE(told["workload"][key].is_null()) << key;
  }
  EXPECT_TRUE(told["goodput"].is_null());
  EXPECT_TRUE(told["latency_ms"]["e2e"].is_null());
  EXPECT_EQ(told["errors"][0]["first_message"], "\xef\xbf\xbd");
  result.options.load = {.arrivals = ArrivalOptions()};
  EXPECT_EQ(nlohmann::json::parse(ServeResultJson(result))["workload"]["request_rate"], "inf");
}

}  // namespace
}  // namespace trireme::client
