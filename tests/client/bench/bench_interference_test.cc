// `trireme bench interference`, against a server that does what the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/client/run_line.h"
#include "tests/client/scripted_server.h"

namespace trireme::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Streams go on until they are cancelled, a token each 2 ms. A prompt of more than 50 tokens takes 600 ms to its one, and
// streams get no token while it does, but in its midst.
class InterferenceServer {
 public:
  ScriptedServer& server() { return server_; }
  void set_cached_tokens(std::uint32_t tokens) { cached_tokens_ = tokens; }

 private:
  grpc::Status Answer(int call, grpc::ServerContext* context, Writer* writer) {
    if (server_.requests().at(static_cast<std::size_t>(call)).token_ids().ids_size() > 50) {
      for (int half = 0; half < 2; ++half) {
        is_held_up_ = true;
        absl::SleepFor(absl::Milliseconds(280));
        is_held_up_ = false;
        absl::SleepFor(absl::Milliseconds(20));
      }
      return StreamTokens(1, absl::ZeroDuration(), context, writer, cached_tokens_);
    }
    while (writer->Write(ChunkOf("x", 10)) && !context->IsCancelled()) {
      do {
        absl::SleepFor(absl::Milliseconds(2));
      } while (is_held_up_);
    }
    return grpc::Status::CANCELLED;
  }

  std::atomic<bool> is_held_up_ = false;
  std::atomic<std::uint32_t> cached_tokens_ = 0;
  ScriptedServer server_{
      [this](int call, grpc::ServerContext* context, Writer* writer) { return Answer(call, context, writer); }};
};

TEST(BenchInterference, ComparesGapsBesideAPromptWithTheOthers) {
  InterferenceServer fake;
  const Arguments line = {
      "bench", "interference", "--target", fake.server().target(), "--streams", "3", "--joins", "2", "--joining-len",
      "200",   "--quiet",      "1s"};
  Arguments json = line;
  json.push_back("--json");
  const Ran ran = RunLine(json);
  ASSERT_EQ(ran.exit_status, kExitOk) << ran.err;
  EXPECT_EQ(fake.server().requests().size(), 5u);
  const nlohmann::json told = nlohmann::json::parse(ran.out);
  EXPECT_EQ(told["benchmark"], "interference");
  EXPECT_EQ(told["workload"]["streams"], 3);
  EXPECT_EQ(told["joining_ttft_ms"]["count"], 2);
  EXPECT_GE(told["joining_ttft_ms"]["p50"], 300.0);
  EXPECT_GE(told["itl_alone_ms"]["count"], 1);
  EXPECT_GE(told["itl_beside_ms"]["count"], 1);
  EXPECT_GE(told["itl_beside_ms"]["p99"], 200.0);  // 280 but for how late the token before it was seen
  EXPECT_LT(told["itl_alone_ms"]["p50"], 200.0);
  EXPECT_NEAR(told["p99_ratio"].get<double>(),
              told["itl_beside_ms"]["p99"].get<double>() / told["itl_alone_ms"]["p99"].get<double>(), 1e-9);
}

TEST(BenchInterference, FindsNothingInThePrefixCache) {
  InterferenceServer fake;
  const Arguments line = {"bench",   "interference", "--target", fake.server().target(), "--streams",
                          "1",       "--joins",      "1",        "--joining-len",        "200",
                          "--quiet", "500ms"};
  EXPECT_EQ(RunLine(line).exit_status, kExitOk);
  EXPECT_EQ(RunLine(line).exit_status, kExitOk);
  std::set<std::string> salts;
  for (const v1::GenerateRequest& request : fake.server().requests()) salts.insert(request.cache_salt());
  EXPECT_EQ(salts.size(), 2u) << "one for each run";
  fake.set_cached_tokens(64);
  const Ran ran = RunLine(line);
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("the server had 64 tokens of the joining prompt in its prefix cache"));
}

TEST(BenchInterference, FailsAboveTheRatioThatIsAllowed) {
  InterferenceServer fake;
  const Ran ran = RunLine({"bench", "interference", "--target", fake.server().target(), "--streams", "2", "--joins",
                           "1", "--joining-len", "200", "--quiet", "1s", "--max-ratio", "0.5"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_THAT(ran.out, HasSubstr("p99 between tokens while a prompt joins: "));
  EXPECT_THAT(ran.err, StartsWith("trireme bench interference: OUT_OF_RANGE: the p99 grows "));
  const Ran allowed = RunLine({"bench", "interference", "--target", fake.server().target(), "--streams", "2", "--joins",
                               "1", "--joining-len", "200", "--quiet", "1s", "--max-ratio", "1e6"});
  EXPECT_EQ(allowed.exit_status, kExitOk) << allowed.err;
}

TEST(BenchInterference, SaysWhyItCannotBeMeasured) {
  InterferenceServer fake;
  Ran ran = RunLine({"bench", "interference", "--target", fake.server().target()});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("a prompt of 2000 tokens and one of output need 2001, the server takes 512 "));
  ScriptedServer brief([](int, grpc::ServerContext* context, Writer* writer) {
    return StreamTokens(4, absl::Milliseconds(1), context, writer);
  });
  ran = RunLine({"bench", "interference", "--target", brief.target(), "--joining-len", "200"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("a stream came to the end of its context when 0 of 5 prompts had joined"));
  ScriptedServer broken(
      [](int, grpc::ServerContext*, Writer*) { return grpc::Status(grpc::StatusCode::ABORTED, "rank 2 was killed"); });
  ran = RunLine({"bench", "interference", "--target", broken.target(), "--joining-len", "200"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_EQ(ran.err, "trireme bench interference: ABORTED: rank 2 was killed\n");
}

}  // namespace
}  // namespace trireme::client
