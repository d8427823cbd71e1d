// Many requests at once, and many after each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/server_process.h"

namespace trireme::end_to_end {
namespace {

v1::GenerateRequest Request(std::uint32_t first_token, std::uint32_t num_prompt_tokens, std::uint32_t max_tokens) {
  v1::GenerateRequest request;
  for (std::uint32_t i = 0; i < num_prompt_tokens; ++i) {
    request.mutable_token_ids()->add_ids((first_token + 37 * i) % 500);
  }
  request.mutable_sampling()->set_temperature(0.8f);
  request.mutable_sampling()->set_seed(first_token);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

std::vector<std::uint32_t> Tokens(v1::InferenceService::Stub& stub, const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(200)));
  const auto reader = stub.Generate(&context, request);
  std::vector<std::uint32_t> ids;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    for (const std::uint32_t id : response.chunk().token_ids()) ids.push_back(id);
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return ids;
}

// Streams of differing length, sampled with a seed each, equal what each gives alone.
void ExpectSoloRuns(const std::string& model, std::vector<std::string> arguments, std::uint32_t num_streams) {
  arguments.insert(arguments.end(), {"--dtype", "float32"});
  ServerProcess server(model, arguments);
  ASSERT_TRUE(server.BecomesServing());
  v1::InferenceService::Stub& stub = server.stub();
  const auto request = [](std::uint32_t i) { return Request(i, 1 + 11 * i, 4 + 3 * i); };
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

TEST(Load, SixteenStreamsOfTheDemoModelEqualTheirSoloRuns) {
  const std::optional<std::string> model = DemoModel();
  if (!model) GTEST_SKIP() << "no demo model";
  ExpectSoloRuns(*model, {}, 16);
}

// Resident memory of a process, in bytes.
std::int64_t ResidentBytes(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    std::int64_t kilobytes = 0;
    if (line.starts_with("VmRSS:") &&
        absl::SimpleAtoi(line.substr(6, line.size() - 6 - 3), &kilobytes)) {  // "VmRSS:   1234 kB"
      return kilobytes * 1024;
    }
  }
  ADD_FAILURE() << "no VmRSS of " << pid;
  return 0;
}

std::int64_t ResidentBytes(ServerProcess& server) {
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
        const auto reader = stub.Generate(&context, Request(random() % 500, 1 + random() % 60, 1 + random() % 40));
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

bool BecomesIdle(ServerProcess& server) {
  for (int i = 0; i < 2000; ++i) {
    const v1::GetLoadsResponse loads = server.Loads();
    if (loads.running_requests() + loads.waiting_requests() + loads.used_kv_tokens() == 0) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

TEST(Load, AThousandRequestsWithCancelsLeaveNothingBehind) {
  ServerProcess server(TRIREME_FIXTURES "/hf/text_llama", {"--tp-degree", "2"});
  ASSERT_TRUE(server.BecomesServing());
  GenerateAndCancel(server.stub(), 200, /*seed=*/1);
  EXPECT_TRUE(BecomesIdle(server));
  const std::int64_t after_200 = ResidentBytes(server);
  GenerateAndCancel(server.stub(), 800, /*seed=*/2);
  EXPECT_TRUE(BecomesIdle(server));
  EXPECT_LT(ResidentBytes(server) - after_200, 2 << 20);
}

}  // namespace
}  // namespace trireme::end_to_end
