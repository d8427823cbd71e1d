// Checkpoints served by the real programs, judged by the reference's answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/sanitizers.h"

namespace trireme::end_to_end {
namespace {

using nlohmann::json;
using test_support::kSlowdown;

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return json::parse(file);
}

std::vector<std::uint32_t> Ids(const json& ids) { return ids.get<std::vector<std::uint32_t>>(); }

// A greedy request that goes on after the end of sequence, with log-probabilities.
v1::GenerateRequest GreedyRequest(const std::vector<std::uint32_t>& prompt, std::size_t num_tokens) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Assign(prompt.begin(), prompt.end());
  request.set_stream(false);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(static_cast<std::uint32_t>(num_tokens));
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_output()->set_logprobs(0);
  request.mutable_output()->set_skip_special_tokens(false);
  return request;
}

v1::Completion Complete(ServerProcess& server, const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(120) * kSlowdown));
  const auto reader = server.stub().Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.complete().completions_size() == 1 ? response.complete().completions(0) : v1::Completion();
}

void ExpectIdsAndLogprobs(const v1::Completion& completion, const json& ids, const json& logprobs, double tolerance) {
  ASSERT_THAT(completion.token_ids(), ::testing::ElementsAreArray(Ids(ids)));
  ASSERT_EQ(static_cast<std::size_t>(completion.logprobs_size()), ids.size());
  for (int i = 0; i < completion.logprobs_size(); ++i) {
    EXPECT_NEAR(completion.logprobs(i).logprob(), logprobs[static_cast<std::size_t>(i)].get<double>(), tolerance) << i;
  }
}

class TinyLlama : public ::testing::TestWithParam<int> {};

TEST_P(TinyLlama, AnswersAsTheReferenceInIdsLogprobsAndText) {
  const std::string folder = TRIREME_FIXTURES "/hf/text_llama";
  ServerProcess server(folder, {"--tp-degree", absl::StrCat(GetParam()), "--dtype", "float32"});
  ASSERT_TRUE(server.BecomesServing());
  const json cases = ReadJson(folder + "/golden.json")["cases"];
  for (const json& golden : cases) {
    const v1::Completion completion = Complete(server, GreedyRequest(Ids(golden["prompt"]), golden["greedy"].size()));
    ExpectIdsAndLogprobs(completion, golden["greedy"], golden["greedy_logprobs"], 1e-4);
    EXPECT_EQ(completion.text(), golden["output_text_with_special"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(TpDegrees, TinyLlama, ::testing::Values(1, 2, 4));

class DemoModelServed : public ::testing::TestWithParam<int> {};

TEST_P(DemoModelServed, AnswersAsTheReferenceInIdsLogprobsAndText) {
  const std::optional<std::string> model = DemoModel();
  if (!model) GTEST_SKIP() << "no demo model";
  ServerProcess server(*model, ForDemoModel({"--tp-degree", absl::StrCat(GetParam()), "--dtype", "float32"}));
  ASSERT_TRUE(server.BecomesServing());
  const json golden = ReadJson(TRIREME_FIXTURES "/smollm2/golden.json");
  for (const json& one : golden["cases"]) {
    // Closer than this, rounding decides which of two tokens comes first.
    if (one["min_top2_gap"].get<double>() < 2e-3) continue;
    const v1::Completion completion = Complete(server, GreedyRequest(Ids(one["prompt_ids"]), one["greedy_ids"].size()));
    ExpectIdsAndLogprobs(completion, one["greedy_ids"], one["greedy_logprobs"], 2e-3);
    EXPECT_EQ(completion.text(), one["greedy_text"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(TpDegrees, DemoModelServed, ::testing::Values(1, 3, 9));

TEST(ServedChat, StreamsTheTemplatesPromptAndEndsAtTheEndOfSequence) {
  const std::optional<std::string> model = DemoModel();
  if (!model) GTEST_SKIP() << "no demo model";
  ServerProcess server(*model, ForDemoModel({"--dtype", "float32"}));
  ASSERT_TRUE(server.BecomesServing());
  v1::GenerateRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("Name three primary colors.");
  request.mutable_sampling()->set_temperature(0);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(120) * kSlowdown));
  const auto reader = server.stub().Generate(&context, request);
  std::string text;
  v1::GenerateResponse response;
  int num_chunks = 0;
  while (reader->Read(&response)) {
    text += response.chunk().text();
    num_chunks += response.has_chunk();
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(text, "The primary colors are: Red, Blue, and Yellow.");
  EXPECT_GT(num_chunks, 5);
  EXPECT_EQ(response.complete().completions(0).text(), text);
  EXPECT_EQ(response.complete().completions(0).finish_reason(), v1::FINISH_REASON_EOS);
  EXPECT_EQ(response.complete().usage().prompt_tokens(), 35u);
}

}  // namespace
}  // namespace trireme::end_to_end
