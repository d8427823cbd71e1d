// What becomes of requests when their worker group is lost, or the engine stops.
#include <gtest/gtest.h>

#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

class EngineGroupLossTest : public EngineTest {};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, EngineGroupLossTest, testing::Values(1, 2, 3));

TEST_P(EngineGroupLossTest, ResumesRunningRequestsWithTheNextGroup) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(2);
  const Request request = MakeRequest("a", Prompt(5), 40, 3);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForTokens(2));
  fake.group.TakeDown(absl::InternalError("rank 2 (pid 17) was killed by signal 9"));
  while (fake.engine.loads().running_requests > 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(fake.engine.loads().waiting_requests, 1u);
  EXPECT_EQ(fake.engine.loads().resumptions, 1u);
  EXPECT_FALSE(fake.engine.loads().group_up);
  EXPECT_EQ(fake.engine.loads().total_kv_blocks, 0u);
  EXPECT_EQ(fake.engine.Submit(MakeRequest("c", Prompt(1), 1), std::make_shared<Recorder>()),
            absl::UnavailableError("the worker group is not up: rank 2 (pid 17) was killed by signal 9"));
  EXPECT_EQ(recorder->num_ends(), 0);
  fake.group.BringUp();
  fake.group.Resume();
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), Solo(request));
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kLength);
}

TEST_P(EngineGroupLossTest, KeepsCancelsAbortsAndDeadlinesOfThoseThatAwaitTheNextGroup) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(3);
  Request late = MakeRequest("late", Prompt(5), 50);
  late.deadline = absl::Now() + absl::Seconds(1);
  const auto expired = fake.Submit(late);
  const auto cancelled = fake.Submit(MakeRequest("cancelled", Prompt(5), 50));
  const auto aborted = fake.Submit(MakeRequest("aborted", Prompt(5), 50));
  ASSERT_TRUE(expired->WaitForTokens(1));
  fake.group.TakeDown(absl::InternalError("rank 1 died"));
  fake.engine.Cancel("cancelled", cancelled.get());
  EXPECT_TRUE(fake.engine.Abort("aborted"));
  for (const auto& recorder : {expired, cancelled, aborted}) ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(expired->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(aborted->finish()->reason, FinishReason::kAborted);
}

TEST_P(EngineGroupLossTest, ServesWaitingRequestsWithTheNextGroup) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(MakeRequest(std::to_string(i), Prompt(3), 6, static_cast<std::uint64_t>(i)));
    recorders.push_back(fake.Submit(requests.back()));
  }
  // A step admits all four that fit, or the first alone: that depends on how many were submitted before it was sent.
  while (fake.engine.loads().running_requests == 0) absl::SleepFor(absl::Milliseconds(1));
  fake.group.TakeDown(absl::InternalError("rank 1 died"));
  fake.group.BringUp();
  fake.group.Resume();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(recorders[i]->WaitForEnd());
    EXPECT_EQ(recorders[i]->tokens(), Solo(requests[i])) << i;
  }
}

TEST_P(EngineGroupLossTest, EndsRunningRequestsWhenTheGroupIsDownForGood) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(2);
  const auto with_tokens = fake.Submit(MakeRequest("a", Prompt(5), 59));
  ASSERT_TRUE(with_tokens->WaitForTokens(2));
  const auto without = fake.Submit(MakeRequest("b", Prompt(5), 50));
  fake.group.TakeDown(absl::InternalError("rank 0 is silent"), /*for_good=*/true);
  ASSERT_TRUE(with_tokens->WaitForEnd());
  EXPECT_EQ(with_tokens->status(), absl::AbortedError("the worker group was lost: rank 0 is silent"));
  EXPECT_FALSE(IsRetryable(with_tokens->status()));
  ASSERT_TRUE(without->WaitForEnd());
  EXPECT_EQ(without->status(), absl::UnavailableError("the worker group was lost: rank 0 is silent"));
  EXPECT_TRUE(IsRetryable(without->status()));
}

TEST_P(EngineGroupLossTest, EndsWaitingRequestsToo_WhenTheGroupIsDownForGood) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 6; ++i) recorders.push_back(fake.Submit(MakeRequest(std::to_string(i), Prompt(3), 6)));
  fake.group.TakeDown(absl::InternalError("rank 1 died too often"), /*for_good=*/true);
  for (const auto& recorder : recorders) {
    ASSERT_TRUE(recorder->WaitForEnd());
    EXPECT_EQ(recorder->status(), absl::UnavailableError("the worker group was lost: rank 1 died too often"));
  }
}

TEST_P(EngineGroupLossTest, EndsWaitingRequestsThatASmallerGroupCannotHold) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 5; ++i) recorders.push_back(fake.Submit(MakeRequest(std::to_string(i), Prompt(4), 2)));
  const auto large = fake.Submit(MakeRequest("large", Prompt(30), 2));
  fake.group.TakeDown(absl::InternalError("rank 1 died"));
  fake.group.SetKvBlocks({2});
  fake.group.BringUp();
  ASSERT_TRUE(large->WaitForEnd());
  EXPECT_EQ(large->status(),
            absl::ResourceExhaustedError("the prompt has 30 tokens; the restarted workers' KV cache can hold 8"));
  fake.group.Resume();
  ASSERT_TRUE(recorders[4]->WaitForEnd());
}

TEST_P(EngineGroupLossTest, StaysUsableWhenTheFirstStartFails) {
  EngineOverFake fake(options());
  fake.group.TakeDown(absl::InternalError("rank 0: cannot read the model"));
  EXPECT_EQ(fake.engine.Submit(MakeRequest("a", Prompt(1), 1), std::make_shared<Recorder>()),
            absl::UnavailableError("the worker group is not up: rank 0: cannot read the model"));
  fake.group.BringUp();
  EXPECT_TRUE(fake.Submit(MakeRequest("a", Prompt(1), 1))->WaitForEnd());
}

TEST_P(EngineGroupLossTest, EndsAllRequestsWhenItStops) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(1);
  const auto with_tokens = fake.Submit(MakeRequest("a", Prompt(5), 59));
  ASSERT_TRUE(with_tokens->WaitForTokens(1));
  const auto without = fake.Submit(MakeRequest("b", Prompt(5), 50));
  fake.engine.Stop();
  EXPECT_EQ(with_tokens->status(), absl::AbortedError("the server is stopping"));
  EXPECT_EQ(without->status(), absl::UnavailableError("the server is stopping"));
  fake.engine.Stop();
  EXPECT_EQ(fake.engine.Submit(MakeRequest("c", Prompt(1), 1), std::make_shared<Recorder>()),
            absl::UnavailableError("the server is stopping"));
  fake.group.TakeDown(absl::InternalError("too late"));
  fake.group.BringUp();
  EXPECT_TRUE(fake.engine.WaitUntilIdle(absl::Now()));
}

}  // namespace
}  // namespace trireme::server
