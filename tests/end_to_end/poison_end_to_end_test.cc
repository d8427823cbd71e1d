// A request that kills its workers, served by the real programs beside others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/end_to_end/server_process.h"
#include "tests/server/service/details.h"
#include "tests/support/sanitizers.h"

namespace trireme::end_to_end {
namespace {

using test_support::kSlowdown;
using ::testing::HasSubstr;

constexpr std::uint32_t kDeadlyToken = 501;  // no innocent prompt has it
constexpr std::uint32_t kNumInnocents = 10;

v1::GenerateRequest Innocent(std::uint32_t i) {
  v1::GenerateRequest request;
  for (std::uint32_t k = 0; k < 3 + 7 * i; ++k) request.mutable_token_ids()->add_ids((i + 31 * k) % 500);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(200);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

struct Answer {
  std::vector<std::uint32_t> ids;
  grpc::Status status;
};

// Counts `begun` down at the first chunk, or at the end if there was none.
Answer Generate(v1::InferenceService::Stub& stub, const v1::GenerateRequest& request, std::latch* begun = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(200) * kSlowdown));
  const auto reader = stub.Generate(&context, request);
  Answer answer;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (begun != nullptr) std::exchange(begun, nullptr)->count_down();
    for (const std::uint32_t id : response.chunk().token_ids()) answer.ids.push_back(id);
  }
  if (begun != nullptr) begun->count_down();
  answer.status = reader->Finish();
  return answer;
}

std::vector<std::vector<std::uint32_t>> SoloAnswers() {
  ServerProcess server(TRIREME_FIXTURES "/hf/text_llama", {"--dtype", "float32", "--tp-degree", "2"});
  std::vector<std::vector<std::uint32_t>> answers;
  if (!server.BecomesServing()) return answers;
  for (std::uint32_t i = 0; i < kNumInnocents; ++i) answers.push_back(Generate(server.stub(), Innocent(i)).ids);
  return answers;
}

TEST(Poison, EndsAloneAfterTwoLossesWhileTenOthersFinish) {
  const std::vector<std::vector<std::uint32_t>> solo = SoloAnswers();
  ASSERT_EQ(solo.size(), kNumInnocents);
  setenv("TRIREME_TEST_DEADLY_TOKEN", std::to_string(kDeadlyToken).c_str(), 1);
  ServerProcess server(TRIREME_FIXTURES "/hf/text_llama", {"--dtype", "float32", "--tp-degree", "2", "--worker-binary",
                                                           TRIREME_FAULTY_WORKER, "--max-group-restarts", "2"});
  ASSERT_TRUE(server.BecomesServing());
  v1::InferenceService::Stub& stub = server.stub();
  std::vector<Answer> answers(kNumInnocents);
  std::latch all_run(kNumInnocents);
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < kNumInnocents; ++i) {
    clients.emplace_back([&, i] { answers[i] = Generate(stub, Innocent(i), &all_run); });
  }
  all_run.wait();
  v1::GenerateRequest poison = Innocent(2);
  poison.mutable_token_ids()->add_ids(kDeadlyToken);
  const Answer poisoned = Generate(stub, poison);
  for (std::thread& client : clients) client.join();

  EXPECT_EQ(poisoned.status.error_code(), grpc::StatusCode::INTERNAL) << poisoned.status.error_message();
  EXPECT_EQ(server::ReasonOf(poisoned.status), "KILLS_WORKERS");
  EXPECT_THAT(poisoned.status.error_message(), HasSubstr("lost 2 times"));
  EXPECT_THAT(poisoned.status.error_message(), HasSubstr("SIGKILL"));
  for (std::uint32_t i = 0; i < kNumInnocents; ++i) {
    EXPECT_TRUE(answers[i].status.ok()) << answers[i].status.error_message();
    EXPECT_EQ(answers[i].ids, solo[i]) << "stream " << i;
  }
  EXPECT_EQ(server.ServerInfo().group_restarts(), 2u);

  // A client that does not take no for an answer: these losses do not count, and are the last.
  EXPECT_EQ(server::ReasonOf(Generate(stub, poison).status), "KILLS_WORKERS");
  ASSERT_TRUE(server.BecomesServing(/*generation=*/5));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(server::ReasonOf(Generate(stub, poison).status), "KILLS_WORKERS");
  EXPECT_EQ(server.ServerInfo().group_restarts(), 4u);
  EXPECT_EQ(Generate(stub, Innocent(0)).ids, solo[0]);
}

}  // namespace
}  // namespace trireme::end_to_end
