// `trireme bench serve`, against a server that does what the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "tests/client/run_line.h"
#include "tests/client/scripted_server.h"

namespace trireme::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

grpc::Status FourTokens(int, grpc::ServerContext* context, Writer* writer) {
  return StreamTokens(4, absl::Milliseconds(1), context, writer);
}

TEST(Bench, ExplainsItself) {
  EXPECT_EQ(RunLine({"bench"}).exit_status, kExitUsage);
  EXPECT_THAT(RunLine({"bench", "--help"}).out, StartsWith("trireme bench: "));
  EXPECT_EQ(RunLine({"bench", "--version"}).out, "trireme " + std::string(BuildId()) + "\n");
  EXPECT_EQ(RunLine({"bench", "sail"}).err, "trireme bench: unknown benchmark \"sail\"\nSee trireme bench --help.\n");
  EXPECT_EQ(RunLine({"bench", "--sail"}).err, "trireme bench: unknown flag \"--sail\"\nSee trireme bench --help.\n");
  for (const std::string name : {"serve", "interference"}) {
    const Ran help = RunLine({"bench", name, "--help"});
    EXPECT_EQ(help.exit_status, kExitOk);
    EXPECT_THAT(help.out, StartsWith("trireme bench " + name + ": "));
    EXPECT_EQ(RunLine({"bench", name, "--oars", "170"}).exit_status, kExitUsage);
  }
}

TEST(BenchServe, CountsWhatItSent) {
  ScriptedServer server(FourTokens);
  const Ran ran = RunLine({"bench", "serve", "--target", server.target(), "--concurrency", "3", "--num-requests", "7",
                           "--warmup", "2", "--json", "--goodput", "e2e:600000", "--input-len", "uniform:5-9"});
  EXPECT_EQ(ran.exit_status, kExitOk) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(server.requests().size(), 9u);
  const nlohmann::json told = nlohmann::json::parse(ran.out);
  EXPECT_EQ(told["server"]["model"], "scripted");
  EXPECT_EQ(told["server"]["version"], "9.9.9");
  EXPECT_EQ(told["requests"]["sent"], 7);
  EXPECT_EQ(told["requests"]["finished"], 7);
  EXPECT_EQ(told["tokens"]["output"], 28);
  EXPECT_EQ(told["tokens"]["prompt"], 21);  // as the server says
  EXPECT_EQ(told["tokens"]["cached"], 7);
  EXPECT_EQ(told["latency_ms"]["ttft"]["count"], 7);
  EXPECT_EQ(told["latency_ms"]["itl"]["count"], 21);
  EXPECT_EQ(told["latency_ms"]["tpot"]["count"], 7);
  EXPECT_EQ(told["latency_ms"]["e2e"]["count"], 7);
  EXPECT_EQ(told["goodput"]["share"], 1.0);
  for (const v1::GenerateRequest& request : server.requests()) {
    EXPECT_GE(request.token_ids().ids_size(), 5);
    EXPECT_LE(request.token_ids().ids_size(), 9);
    for (const std::uint32_t id : request.token_ids().ids()) EXPECT_TRUE(id >= 3 && id < 100) << id;
  }
}

TEST(BenchServe, SendsTheSameAgainInAnOpenLoop) {
  std::vector<std::string> sent[2];
  for (std::vector<std::string>& run : sent) {
    ScriptedServer server(FourTokens);
    const Ran ran = RunLine({"bench", "serve", "--target", server.target(), "--request-rate", "500", "--burstiness",
                             "2", "--num-requests", "5", "--warmup", "0", "--seed", "9", "--temperature", "0.5"});
    EXPECT_EQ(ran.exit_status, kExitOk) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("5 sent: 5 finished, 0 failed\n"));
    EXPECT_THAT(ran.out, HasSubstr("from when each was due: its scheduled arrival"));
    for (v1::GenerateRequest request : server.requests()) {
      EXPECT_NE(request.cache_salt(), "");
      request.clear_cache_salt();  // each run's own
      run.push_back(request.SerializeAsString());
    }
    std::sort(run.begin(), run.end());  // they may overtake each other
  }
  EXPECT_EQ(sent[0], sent[1]);
}

TEST(BenchServe, TakesPromptsFromAFile) {
  const std::string path = testing::TempDir() + "/bench-prompts.jsonl";
  std::ofstream(path) << "{\"prompt\": \"Hello\", \"output_tokens\": 5}\n";
  ScriptedServer server(FourTokens);
  const Ran ran = RunLine(
      {"bench", "serve", "--target", server.target(), "--concurrency", "1", "--num-requests", "2", "--prompts", path});
  EXPECT_EQ(ran.exit_status, kExitOk) << ran.err;
  for (const v1::GenerateRequest& request : server.requests()) {
    EXPECT_EQ(request.text(), "Hello");
    EXPECT_EQ(request.stopping().max_tokens(), 5u);
  }
}

TEST(BenchServe, FailsIfEveryRequestDid) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  });
  const Arguments line = {"bench", "serve", "--target", server.target(), "--concurrency", "2", "--num-requests", "5"};
  Arguments cold = line;
  cold.insert(cold.end(), {"--warmup", "0"});
  const Ran ran = RunLine(cold);
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_THAT(ran.out, HasSubstr("5 sent: 0 finished, 5 failed\n"));
  EXPECT_THAT(ran.out, HasSubstr("Error        RESOURCE_EXHAUSTED, 5 times, first: the queue is full\n"));
  const Ran warm = RunLine(line);
  EXPECT_EQ(warm.exit_status, kExitFailed);
  EXPECT_EQ(warm.out, "");
  EXPECT_EQ(warm.err, "trireme bench serve: RESOURCE_EXHAUSTED: the queue is full\n");
}

TEST(BenchServe, SucceedsIfSomeRequestsDo) {
  ScriptedServer server([](int call, grpc::ServerContext* context, Writer* writer) {
    return call % 2 == 0 ? FourTokens(call, context, writer) : grpc::Status(grpc::StatusCode::INTERNAL, "oops");
  });
  const Ran ran = RunLine(
      {"bench", "serve", "--target", server.target(), "--concurrency", "1", "--num-requests", "4", "--warmup", "0"});
  EXPECT_EQ(ran.exit_status, kExitOk);
  EXPECT_THAT(ran.out, HasSubstr("4 sent: 2 finished, 2 failed\n"));
}

TEST(BenchServe, FailsIfTheServerIsNotThere) {
  const Ran ran = RunLine({"bench", "serve", "--target", "unix:/no/such/socket", "--concurrency", "1"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, StartsWith("trireme bench serve: UNAVAILABLE: "));
}

TEST(BenchServe, RefusesWrongUse) {
  const std::string one_of = "expected exactly one of --request-rate, --concurrency";
  const std::pair<Arguments, std::string> cases[] = {
      {{}, one_of},
      {{"--concurrency", "1", "--request-rate", "1"}, one_of},
      {{"--concurrency", "0"}, "--concurrency: expected a whole number from 1 to 100000"},
      {{"--request-rate", "0"}, "--request-rate: expected a number above 0, or inf, got \"0\""},
      {{"--request-rate", "x"}, "--request-rate: expected a number above 0, or inf, got \"x\""},
      {{"--request-rate", "inf", "--duration", "1s"}, "--request-rate inf needs --num-requests"},
      {{"--concurrency", "1", "--burstiness", "2"}, "--burstiness is of --request-rate"},
      {{"--concurrency", "1", "--cancel-share", "0.5", "--stream=false"}, "--cancel-share counts the tokens"},
      {{"--concurrency", "1", "--goodput", "tpot:5", "--stream=false"}, "--goodput: ttft, itl and tpot need --stream"},
      {{"--concurrency", "1", "--input-len", "9", "--prompts", "f"}, "expected --input-len or --prompts, not both"},
      {{"--request-rate", "1", "--burstiness", "0"}, "--burstiness: expected a number from 0.01 to 10000"},
      {{"--concurrency", "1", "--cancel-share", "1.5"}, "--cancel-share: expected a number from 0 to 1"},
      {{"--concurrency", "1", "--input-len", "0"}, "--input-len: expected tokens"},
      {{"--concurrency", "1", "--goodput", "speed:1"}, "--goodput: expected bounds in milliseconds"},
      {{"--concurrency", "1", "--prompts", "/no/such/file"}, "/no/such/file: cannot be opened"},
  };
  for (const auto& [flags, message] : cases) {
    Arguments line = {"bench", "serve"};
    line.insert(line.end(), flags.begin(), flags.end());
    const Ran ran = RunLine(line);
    EXPECT_EQ(ran.exit_status, kExitUsage) << message;
    EXPECT_THAT(ran.err, HasSubstr(message));
    EXPECT_EQ(ran.out, "");
  }
}

TEST(BenchServe, RefusesLengthsThatTheServerDoesNotTake) {
  ScriptedServer server(FourTokens);
  const Ran ran = RunLine({"bench", "serve", "--target", server.target(), "--concurrency", "1", "--input-len", "500"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("--input-len 500 and --output-len 64 may come to 564 tokens, the server takes 512"));
  EXPECT_TRUE(server.requests().empty());
}

}  // namespace
}  // namespace trireme::client
