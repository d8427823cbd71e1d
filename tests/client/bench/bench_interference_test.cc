// `trireme bench interference`, against a server that does what the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/run_line.h"
#include "tests/client/scripted_server.h"

namespace trireme::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Streams go on until they are cancelled, a token each 2 ms; a prompt of more than 50 tokens takes 300 ms to its one.
class InterferenceServer {
 public:
  ScriptedServer& server() { return server_; }

 private:
  grpc::Status Answer(int call, grpc::ServerContext* context, Writer* writer) {
    if (server_.requests().at(static_cast<std::size_t>(call)).token_ids().ids_size() > 50) {
      absl::SleepFor(absl::Milliseconds(300));
      return StreamTokens(1, absl::ZeroDuration(), context, writer);
    }
    return StreamTokens(1'000'000, absl::Milliseconds(2), context, writer);
  }

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
  EXPECT_NEAR(told["p99_ratio"].get<double>(),
              told["itl_beside_ms"]["p99"].get<double>() / told["itl_alone_ms"]["p99"].get<double>(), 1e-9);
}

TEST(BenchInterference, FailsAboveTheRatioThatIsAllowed) {
  InterferenceServer fake;
  const Ran ran = RunLine({"bench", "interference", "--target", fake.server().target(), "--streams", "2", "--joins",
                           "1", "--joining-len", "200", "--quiet", "1s", "--max-ratio", "0"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_THAT(ran.out, HasSubstr("p99 between tokens while a prompt joins: "));
  EXPECT_THAT(ran.err, StartsWith("trireme bench interference: OUT_OF_RANGE: the p99 grows "));
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
