// A worker fails under a hundred streams: each goes on with the next group and ends as if nothing had happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/load.h"
#include "tests/end_to_end/server_process.h"

namespace trireme::end_to_end {
namespace {

constexpr std::uint32_t kNumStreams = 100;
constexpr std::uint32_t kTokens = 200;  // of each
// By then all streams run: the prompts take few steps.
constexpr char kFailingStep[] = "100";

using Answers = std::vector<std::vector<std::uint32_t>>;

// All at once; does `meanwhile` when each has given its first token.
Answers Generate(ServerProcess& server, const std::function<void()>& meanwhile) {
  v1::InferenceService::Stub& stub = server.stub();
  Answers answers(kNumStreams);
  std::latch all_run(kNumStreams);
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < kNumStreams; ++i) {
    clients.emplace_back([&, i] { answers[i] = Tokens(stub, SampledRequest(i, 1 + i % 40, kTokens), &all_run); });
  }
  all_run.wait();
  meanwhile();
  for (std::thread& client : clients) client.join();
  return answers;
}

struct Fault {
  std::string name;
  int signal = 0;     // to rank 1; 0: rank 0 and 1 fail step kFailingStep
  std::string cause;  // a regular expression
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class FaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  FaultTest() {
    if (GetParam().signal == 0) setenv("TRIREME_TEST_FAILING_STEP", kFailingStep, 1);
  }
  ~FaultTest() override { unsetenv("TRIREME_TEST_FAILING_STEP"); }
};

TEST_P(FaultTest, AHundredStreamsGoOnAsIfNothingHadHappened) {
  ServerProcess server(TRIREME_FIXTURES "/hf/text_llama", {"--dtype", "float32", "--tp-degree", "2", "--max-num-seqs",
                                                           "128", "--worker-binary", TRIREME_FAULTY_WORKER});
  ASSERT_TRUE(server.BecomesServing());
  const Answers disturbed = Generate(server, [&server] {
    if (GetParam().signal == 0) return;
    EXPECT_EQ(kill(static_cast<pid_t>(server.ServerInfo().ranks(1).pid()), GetParam().signal), 0);
  });
  const v1::GetServerInfoResponse info = server.ServerInfo();
  EXPECT_EQ(info.group_restarts(), 1u);
  EXPECT_THAT(info.last_restart_reason(), ::testing::ContainsRegex(GetParam().cause));

  const Answers undisturbed = Generate(server, [] {});
  EXPECT_EQ(server.ServerInfo().group_restarts(), 1u);
  for (std::uint32_t i = 0; i < kNumStreams; ++i) {
    EXPECT_EQ(disturbed[i].size(), kTokens) << "stream " << i;
    EXPECT_EQ(disturbed[i], undisturbed[i]) << "stream " << i;
  }
  EXPECT_TRUE(BecomesIdle(server));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FaultTest,
    ::testing::Values(Fault{.name = "kill", .signal = SIGKILL, .cause = "rank 1 .*SIGKILL"},
                      Fault{.name = "freeze", .signal = SIGSTOP, .cause = "rank 1 .*heartbeat"},
                      Fault{.name = "fail", .signal = 0, .cause = "rank [01] .*step 100: .*a test has this step fail"}),
    [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace trireme::end_to_end
