// `trireme bench serve` against the real server, with a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "client/cli/commands.h"
#include "tests/end_to_end/server_process.h"

namespace trireme::end_to_end {
namespace {

using nlohmann::json;

// What the benchmark tells; the test fails if it does not succeed.
json RunBench(ServerProcess& server, client::Arguments flags) {
  client::Arguments line = {"bench", "serve", "--json", "--target", server.target()};
  line.insert(line.end(), flags.begin(), flags.end());
  std::istringstream in;
  std::ostringstream out, err;
  client::Terminal terminal{.in = in, .out = out, .err = err};
  EXPECT_EQ(client::RunTrireme(line, terminal), client::kExitOk) << err.str();
  return out.str().empty() ? json() : json::parse(out.str());
}

TEST(BenchServe, MeasuresTheRealServer) {
  ServerProcess server(std::string(TRIREME_FIXTURES) + "/hf/llama", {"--tp-degree", "2"});
  ASSERT_TRUE(server.BecomesServing());

  const json closed = RunBench(server, {"--concurrency", "4", "--num-requests", "20", "--input-len", "uniform:1-60",
                                        "--output-len", "10", "--temperature", "1", "--goodput", "e2e:3600000"});
  EXPECT_EQ(closed["server"]["tp_degree"], 2);
  EXPECT_EQ(closed["server"]["model_type"], "llama");
  EXPECT_EQ(closed["requests"]["finished"], 20) << closed.dump(1);
  EXPECT_EQ(closed["tokens"]["output"], 200);
  EXPECT_EQ(closed["latency_ms"]["ttft"]["count"], 20);
  EXPECT_EQ(closed["goodput"]["share"], 1.0);
  EXPECT_GT(closed["throughput"]["output_tokens_per_s"], 0.0);

  const json open = RunBench(server, {"--request-rate", "inf", "--num-requests", "50", "--input-len", "20",
                                      "--output-len", "uniform:2-30", "--cancel-share", "0.4"});
  const json& requests = open["requests"];
  EXPECT_EQ(requests["sent"], 50);
  EXPECT_EQ(requests["failed"], 0) << open["errors"];
  EXPECT_GT(requests["finished"], 0);
  EXPECT_EQ(requests["finished"].get<int>() + requests["cancelled"].get<int>(), 50);

  const json unary = RunBench(server, {"--concurrency", "2", "--num-requests", "5", "--input-len", "20", "--output-len",
                                       "7", "--stream=false"});
  EXPECT_EQ(unary["tokens"]["output"], 35);
  EXPECT_EQ(unary["tokens"]["prompt"], 100);
  EXPECT_TRUE(unary["latency_ms"]["ttft"].is_null());
  EXPECT_EQ(unary["latency_ms"]["e2e"]["count"], 5);
}

TEST(BenchServe, CountsWhatTheRealServerRefuses) {
  ServerProcess server(std::string(TRIREME_FIXTURES) + "/hf/llama",
                       {"--tp-degree", "1", "--max-num-seqs", "1", "--max-queued-requests", "1"});
  ASSERT_TRUE(server.BecomesServing());
  const json told = RunBench(server, {"--request-rate", "inf", "--num-requests", "60", "--input-len", "50",
                                      "--output-len", "200", "--goodput", "e2e:3600000"});
  EXPECT_EQ(told["requests"]["sent"], 60);
  EXPECT_EQ(told["requests"]["finished"].get<int>() + told["requests"]["failed"].get<int>(), 60);
  EXPECT_EQ(told["goodput"]["requests"], told["requests"]["finished"]);
  ASSERT_EQ(told["errors"].size(), 1u) << told["errors"];
  EXPECT_EQ(told["errors"][0]["code"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(told["errors"][0]["count"], told["requests"]["failed"]);
}

}  // namespace
}  // namespace trireme::end_to_end
