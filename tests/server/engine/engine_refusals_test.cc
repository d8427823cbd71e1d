// Which requests the engine does not take: unserved, doubled, too many, too late.
#include <gtest/gtest.h>

#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

class EngineRefusalsTest : public EngineTest {};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, EngineRefusalsTest, testing::Values(1, 2, 3));

TEST_P(EngineRefusalsTest, RefusesWhatCannotBeServed) {
  EngineOverFake fake(options(), {5, 9});
  const auto observer = std::make_shared<Recorder>();
  const auto submit = [&](std::uint32_t length, std::uint32_t max_tokens) {
    return fake.engine.Submit(MakeRequest("a", Prompt(length), max_tokens), observer);
  };
  EXPECT_EQ(submit(1, 1), absl::UnavailableError("the worker group is not up: not loaded yet"));
  fake.group.BringUp();
  EXPECT_EQ(submit(0, 1), absl::InvalidArgumentError("the prompt has no tokens; expected at least 1"));
  EXPECT_EQ(submit(64, 1), absl::InvalidArgumentError("the prompt has 64 tokens; the model's context of 64 takes at "
                                                      "most 63 and one to generate"));
  EXPECT_EQ(submit(1, 0), absl::InvalidArgumentError("max_tokens is 0; expected at least 1"));
  const absl::Status too_big = submit(21, 1);
  EXPECT_EQ(too_big, absl::ResourceExhaustedError("the prompt has 21 tokens; the KV cache can hold 20"));
  EXPECT_FALSE(IsRetryable(too_big));
  EXPECT_EQ(submit(20, 1), absl::OkStatus());
  ASSERT_TRUE(observer->WaitForEnd());
  EXPECT_EQ(observer->finish()->reason, FinishReason::kLength);
}

TEST_P(EngineRefusalsTest, RefusesASecondRequestOfALiveId) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  const auto first = fake.Submit(MakeRequest("a", Prompt(3), 3));
  const auto second = std::make_shared<Recorder>();
  EXPECT_EQ(fake.engine.Submit(MakeRequest("a", Prompt(3), 3), second),
            absl::AlreadyExistsError("a request with id \"a\" is running"));
  fake.group.Resume();
  ASSERT_TRUE(first->WaitForEnd());
  EXPECT_EQ(second->num_ends(), 0);
  EXPECT_TRUE(fake.Submit(MakeRequest("a", Prompt(3), 3))->WaitForEnd());  // free again once the end was told
}

TEST_P(EngineRefusalsTest, RefusesWhatTheQueueCannotHoldAndSaysThatARetryMayHelp) {
  EngineOptions limited = options();
  limited.max_waiting_sequences = 2;
  limited.limits.max_num_seqs = 1;
  EngineOverFake fake(limited);
  fake.group.BringUp();
  fake.group.Pause();
  std::vector<std::shared_ptr<Recorder>> recorders;
  recorders.push_back(fake.Submit(MakeRequest("run", Prompt(1), 3)));
  while (fake.engine.loads().running_requests == 0) absl::SleepFor(absl::Milliseconds(1));
  for (int i = 0; i < 2; ++i) recorders.push_back(fake.Submit(MakeRequest("wait" + std::to_string(i), Prompt(1), 3)));
  const absl::Status full = fake.engine.Submit(MakeRequest("more", Prompt(1), 3), std::make_shared<Recorder>());
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "the queue is full: 2 sequences wait; requests are let in while fewer than 2 do");
  EXPECT_TRUE(IsRetryable(full));
  fake.group.Resume();
  for (const auto& recorder : recorders) ASSERT_TRUE(recorder->WaitForEnd());
}

TEST_P(EngineRefusalsTest, DrainsWhatIsAliveAndTakesNoMore) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  EXPECT_TRUE(fake.engine.WaitUntilIdle(absl::Now()));
  fake.group.Pause();
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 6; ++i) recorders.push_back(fake.Submit(MakeRequest(std::to_string(i), Prompt(9), 5)));
  fake.engine.Drain();
  EXPECT_EQ(fake.engine.Submit(MakeRequest("x", Prompt(1), 1), std::make_shared<Recorder>()),
            absl::UnavailableError("the server is draining"));
  EXPECT_TRUE(fake.engine.loads().draining);
  EXPECT_FALSE(fake.engine.WaitUntilIdle(absl::Now() + absl::Milliseconds(5)));
  fake.group.Resume();
  EXPECT_TRUE(fake.engine.WaitUntilIdle(absl::Now() + absl::Seconds(30)));
  for (const auto& recorder : recorders) {
    ASSERT_TRUE(recorder->WaitForEnd());
    EXPECT_EQ(recorder->tokens().size(), 5u);
  }
}

}  // namespace
}  // namespace trireme::server
