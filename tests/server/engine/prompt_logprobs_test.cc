// Log-probabilities of the prompt: in order, each once, before the first token, within a step's rows of logits (which
// the fake group counts).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

std::vector<std::uint32_t> Prompt(std::uint32_t length, std::uint32_t first = 0) {
  std::vector<std::uint32_t> prompt;
  for (std::uint32_t i = 0; i < length; ++i) prompt.push_back(first + i);
  return prompt;
}

Request Asking(std::string id, std::uint32_t length, std::uint32_t max_tokens, std::uint32_t first = 0) {
  Request request = MakeRequest(std::move(id), Prompt(length, first), max_tokens);
  request.sampling.prompt_logprobs = 3;
  return request;
}

void ExpectAllLogprobs(const Recorder& recorder, const Request& request) {
  const std::vector<GeneratedToken> told = recorder.prompt_logprobs();
  ASSERT_EQ(told.size(), request.prompt.size() - 1);
  for (std::size_t i = 0; i < told.size(); ++i) {
    const GeneratedToken expected = FakePromptLogprob(request.prompt, i + 1, 3);
    EXPECT_EQ(told[i].token_id, request.prompt[i + 1]);
    EXPECT_EQ(told[i].logprob->logprob, expected.logprob->logprob) << i;
    EXPECT_EQ(told[i].logprob->top.size(), 3u);
  }
}

class PromptLogprobsTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  EngineOptions options() const { return SmallEngine(GetParam()); }  // 7 rows of logits for 4 sequences
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, PromptLogprobsTest, testing::Values(1, 2, 3));

TEST_P(PromptLogprobsTest, ComeForAllTokensButTheFirst) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  for (const std::uint32_t length : {1u, 2u, 6u, 7u, 8u, 9u, 15u, 16u, 17u, 60u}) {
    const Request request = Asking("a", length, 3);
    const auto recorder = fake.Submit(request);
    ASSERT_TRUE(recorder->WaitForEnd());
    EXPECT_EQ(recorder->tokens(), Solo(request));
    ExpectAllLogprobs(*recorder, request);
  }
}

TEST_P(PromptLogprobsTest, ComeAgainThoughThePromptIsCached) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = Asking("a", 30, 3);
  for (int i = 0; i < 2; ++i) {
    const auto recorder = fake.Submit(request);
    ASSERT_TRUE(recorder->WaitForEnd());
    ExpectAllLogprobs(*recorder, request);
    EXPECT_EQ(recorder->finish()->cached_tokens, 0u);
  }
  request.sampling.prompt_logprobs.reset();
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->finish()->cached_tokens, 28u);  // those who ask leave it for others
}

TEST_P(PromptLogprobsTest, ComeOnceForARequestOfSeveralSequences) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = Asking("a", 23, 5);
  request.n = 3;
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  ExpectAllLogprobs(*recorder, request);
  for (std::uint32_t index = 0; index < 3; ++index) EXPECT_EQ(recorder->tokens(index), Solo(request, index));
}

TEST_P(PromptLogprobsTest, LeaveRowsForAllOthers) {
  EngineOptions narrow = options();
  narrow.limits.max_logit_rows = 4;  // one for each sequence
  EngineOverFake fake(narrow);
  fake.group.BringUp();
  fake.group.Pause();
  std::vector<Request> requests = {Asking("0", 30, 9), Asking("1", 20, 9, 500), MakeRequest("2", Prompt(40, 300), 20),
                                   MakeRequest("3", Prompt(3, 900), 30), Asking("4", 13, 2, 700)};
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (const Request& request : requests) recorders.push_back(fake.Submit(request));
  fake.group.Resume();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(recorders[i]->WaitForEnd());
    EXPECT_EQ(recorders[i]->tokens(), Solo(requests[i]));
    if (requests[i].sampling.prompt_logprobs) ExpectAllLogprobs(*recorders[i], requests[i]);
  }
}

TEST_P(PromptLogprobsTest, ComeOnceThoughTheSequenceIsPreempted) {
  for (const bool caching : {true, false}) {
    EngineOptions tight = options();
    tight.prefix_caching = caching;
    EngineOverFake fake(tight, {12});
    fake.group.BringUp();
    fake.group.Pause();
    std::vector<Request> requests;
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (std::uint32_t i = 0; i < 8; ++i) {
      requests.push_back(Asking(std::to_string(i), 6 + 2 * i, 24, 100 * i));
      recorders.push_back(fake.Submit(requests.back()));
    }
    fake.group.Resume();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(recorders[i]->WaitForEnd());
      EXPECT_EQ(recorders[i]->tokens(), Solo(requests[i]));
      ExpectAllLogprobs(*recorders[i], requests[i]);
    }
    EXPECT_GT(fake.engine.loads().preemptions, 0u);
    EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
  }
}

}  // namespace
}  // namespace trireme::server
