// Many requests at once, and many after each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <iostream>
#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "tests/end_to_end/load.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/sanitizers.h"

namespace trireme::end_to_end {
namespace {

using test_support::kIsSanitized;

// Streams of differing length, sampled with a seed each, equal what each gives alone.
void ExpectSoloRuns(const std::string& model, std::vector<std::string> arguments, std::uint32_t num_streams) {
  arguments.insert(arguments.end(), {"--dtype", "float32"});
  ServerProcess server(model, arguments);
  ASSERT_TRUE(server.BecomesServing());
  v1::InferenceService::Stub& stub = server.stub();
  const auto request = [](std::uint32_t i) { return SampledRequest(i, 1 + 11 * i, 4 + 3 * i); };
  std::vector<std::vector<std::uint32_t>> together(num_streams);
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < num_streams; ++i) {
    clients.emplace_back([&, i] { together[i] = Tokens(stub, request(i)); });
  }
  for (std::thread& client : clients) client.join();
  for (std::uint32_t i = 0; i < num_streams; ++i) {
    EXPECT_EQ(together[i].size(), 4 + 3 * i);
    EXPECT_EQ(together[i], Tokens(stub, request(i))) << "stream " << i;
  }
}

TEST(Load, SixteenStreamsOfTheTinyModelEqualTheirSoloRuns) {
  ExpectSoloRuns(TRIREME_FIXTURES "/hf/text_llama", {"--tp-degree", "2", "--max-num-batched-tokens", "32"}, 16);
}

TEST(Load, StreamsOfTheDemoModelEqualTheirSoloRuns) {
  const std::optional<std::string> model = DemoModel();
  if (!model) GTEST_SKIP() << "no demo model";
  ExpectSoloRuns(*model, ForDemoModel({}), kIsSanitized ? 5 : 16);  // sixteen take too long with sanitizers
}

std::int64_t ResidentBytesOfAll(ServerProcess& server) {
  std::int64_t sum = ResidentBytes(server.pid());
  const v1::GetServerInfoResponse info = server.ServerInfo();
  for (const v1::RankInfo& rank : info.ranks()) sum += ResidentBytes(static_cast<pid_t>(rank.pid()));
  return sum;
}

// `count` requests, four at a time, a third of them cancelled at some moment.
void GenerateAndCancel(v1::InferenceService::Stub& stub, int count, unsigned seed) {
  std::vector<std::thread> clients;
  for (unsigned client = 0; client < 4; ++client) {
    clients.emplace_back([&stub, count, seed, client] {
      std::mt19937 random(seed * 4 + client);
      for (int i = 0; i < count / 4; ++i) {
        grpc::ClientContext context;
        const auto reader =
            stub.Generate(&context, SampledRequest(random() % 500, 1 + random() % 60, 1 + random() % 40));
        if (random() % 3 == 0) {
          absl::SleepFor(absl::Microseconds(random() % 20'000));
          context.TryCancel();
        }
        v1::GenerateResponse response;
        while (reader->Read(&response)) {
        }
        const grpc::Status status = reader->Finish();
        EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED) << status.error_message();
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST(Load, AThousandRequestsWithCancelsLeaveNothingBehind) {
  ServerProcess server(TRIREME_FIXTURES "/hf/text_llama", {"--tp-degree", "2"});
  ASSERT_TRUE(server.BecomesServing());
  GenerateAndCancel(server.stub(), 200, /*seed=*/1);
  EXPECT_TRUE(BecomesIdle(server));
  const std::int64_t after_200 = ResidentBytesOfAll(server);
  GenerateAndCancel(server.stub(), 800, /*seed=*/2);
  EXPECT_TRUE(BecomesIdle(server));
  if (kIsSanitized) {
    std::cout << "resident memory is not compared: the sanitizers keep what is freed\n";
  } else {
    EXPECT_LT(ResidentBytesOfAll(server) - after_200, 2 << 20);
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);  // with AddressSanitizer, only if nothing has leaked
}

}  // namespace
}  // namespace trireme::end_to_end
