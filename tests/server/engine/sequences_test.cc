// Several sequences of one request, and the time limit that ends them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/engine/counting_statistics.h"
#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

using ::testing::IsEmpty;

Request MakeParallel(std::string id, std::uint32_t n, std::uint32_t prompt_length, std::uint32_t max_tokens) {
  Request request = MakeRequest(std::move(id), std::vector<std::uint32_t>(prompt_length, 7), max_tokens, 11);
  request.n = n;
  return request;
}

class SequencesTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  EngineOptions options() const { return SmallEngine(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, SequencesTest, testing::Values(1, 2, 3));

TEST_P(SequencesTest, SayWhatEachSaysAlone) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  for (const std::uint32_t n : {1u, 2u, 3u, 4u, 9u}) {  // 4 run at a time
    const Request request = MakeParallel("a", n, 13, 10);
    const auto recorder = fake.Submit(request);
    ASSERT_TRUE(recorder->WaitForEnd());
    for (std::uint32_t index = 0; index < n; ++index) {
      EXPECT_EQ(recorder->tokens(index), Solo(request, index)) << index << " of " << n;
      EXPECT_EQ(recorder->finish(index)->reason, FinishReason::kLength);
    }
  }
  EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
}

TEST_P(SequencesTest, EndOneByOne) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeParallel("a", 3, 5, 20);
  request.stopping.stop_token_ids = {Solo(request, 1)[4]};
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(1).size(), 5u);
  EXPECT_EQ(recorder->finish(1)->reason, FinishReason::kStop);
  EXPECT_EQ(recorder->tokens(0), Solo(request, 0));
  EXPECT_EQ(recorder->tokens(2), Solo(request, 2));
  EXPECT_EQ(recorder->finish(2)->reason, FinishReason::kLength);
}

TEST_P(SequencesTest, RunOneAfterAnotherWhereTheyDoNotFitTogether) {
  EngineOverFake fake(options(), {4});  // 16 tokens: one of these
  fake.group.BringUp();
  const Request request = MakeParallel("a", 4, 11, 6);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  for (std::uint32_t index = 0; index < 4; ++index) EXPECT_EQ(recorder->tokens(index), Solo(request, index));
}

TEST_P(SequencesTest, CountAsOneRequest) {
  CountingStatistics statistics;
  {
    EngineOverFake fake(options(), {64}, &statistics);
    fake.group.BringUp();
    fake.group.Pause();
    const auto recorder = fake.Submit(MakeParallel("a", 3, 5, 10));
    EXPECT_EQ(fake.engine.Submit(MakeParallel("a", 1, 5, 10), std::make_shared<Recorder>()).code(),
              absl::StatusCode::kAlreadyExists);
    while (fake.engine.loads().running_requests == 0) absl::SleepFor(absl::Milliseconds(1));
    const Loads loads = fake.engine.loads();
    EXPECT_EQ(loads.running_requests, 1u);
    EXPECT_EQ(loads.waiting_requests, 0u);
    EXPECT_EQ(loads.running_sequences + loads.waiting_sequences, 3u);
    EXPECT_FALSE(fake.engine.WaitUntilIdle(absl::Now()));
    fake.group.Resume();
    ASSERT_TRUE(recorder->WaitForEnd());
    EXPECT_EQ(fake.engine.loads().running_sequences, 0u);
    EXPECT_EQ(fake.engine.loads().waiting_sequences, 0u);
    EXPECT_TRUE(fake.engine.WaitUntilIdle(absl::Now() + absl::Seconds(30)));
  }
  EXPECT_EQ(statistics.ends, (std::map<std::string, std::uint64_t>{{"length", 1}}));
  EXPECT_EQ(statistics.first_tokens, 1u);
  EXPECT_EQ(statistics.prompt_tokens, 5u);
  EXPECT_EQ(statistics.generated_tokens, 30u);
  EXPECT_EQ(statistics.inter_tokens, 27u);
  EXPECT_EQ(statistics.last.prompt_tokens, 5u);
  EXPECT_EQ(statistics.last.generated_tokens, 30u);
  EXPECT_EQ(statistics.last.max_tokens, 10u);
  EXPECT_EQ(statistics.last.n, 3u);
}

TEST_P(SequencesTest, FillTheQueueEachByItself) {
  EngineOptions limited = options();
  limited.max_waiting_sequences = 2;
  limited.limits.max_num_seqs = 1;
  EngineOverFake fake(limited);
  fake.group.BringUp();
  fake.group.Pause();
  const auto recorder = fake.Submit(MakeParallel("a", 4, 3, 2));
  EXPECT_TRUE(IsRetryable(fake.engine.Submit(MakeParallel("b", 1, 3, 2), std::make_shared<Recorder>())));
  fake.group.Resume();
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_TRUE(fake.Submit(MakeParallel("b", 1, 3, 2))->WaitForEnd());
}

TEST_P(SequencesTest, RefuseNone) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  EXPECT_EQ(fake.engine.Submit(MakeParallel("a", 0, 3, 2), std::make_shared<Recorder>()),
            absl::InvalidArgumentError("n is 0; expected at least 1"));
}

TEST_P(SequencesTest, AreCancelledTogether) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(3);
  const auto recorder = fake.Submit(MakeParallel("a", 6, 3, 50));
  ASSERT_TRUE(recorder->WaitForTokens(1));
  fake.engine.Cancel("a", recorder.get());
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
  EXPECT_EQ(fake.engine.loads().waiting_sequences, 0u);
  fake.group.Resume();
  EXPECT_TRUE(fake.Submit(MakeParallel("a", 2, 3, 5))->WaitForEnd());
}

TEST_P(SequencesTest, AreAbortedTogetherEachWithWhatThereIs) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(3);
  const Request request = MakeParallel("a", 6, 3, 50);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForTokens(1));
  EXPECT_TRUE(fake.engine.Abort("a"));
  ASSERT_TRUE(recorder->WaitForEnd());
  for (std::uint32_t index = 0; index < 6; ++index) {
    EXPECT_EQ(recorder->finish(index)->reason, FinishReason::kAborted);
    const std::vector<std::uint32_t> tokens = recorder->tokens(index), solo = Solo(request, index);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), solo.begin()));
  }
  EXPECT_FALSE(recorder->tokens(0).empty());
  EXPECT_THAT(recorder->tokens(5), IsEmpty());
}

TEST_P(SequencesTest, EndTogetherAtTheDeadline) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  Request request = MakeParallel("a", 2, 3, 5);
  request.deadline = absl::Now() + absl::Milliseconds(20);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status(), absl::DeadlineExceededError("the deadline passed after 0 of at most 10 tokens"));
}

// ---- Time limit.

TEST_P(SequencesTest, EndWithWhatThereIsWhenTheTimeIsUp) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(4);
  Request request = MakeParallel("a", 6, 3, 50);
  request.time_limit = absl::Milliseconds(500);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_GE(recorder->finish()->timings.finished, absl::Milliseconds(490));
  for (std::uint32_t index = 0; index < 6; ++index) {  // two of them in the queue
    EXPECT_EQ(recorder->finish(index)->reason, FinishReason::kTimeLimit);
  }
  EXPECT_FALSE(recorder->tokens(0).empty());
  EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
}

TEST_P(SequencesTest, EndInTheQueueWhenTheTimeIsUp) {
  CountingStatistics statistics;
  EngineOptions limited = options();
  limited.limits.max_num_seqs = 1;
  {
    EngineOverFake fake(limited, {64}, &statistics);
    fake.group.BringUp();
    fake.group.Pause();
    const auto running = fake.Submit(MakeParallel("runs", 1, 3, 5));
    while (fake.engine.loads().running_requests == 0) absl::SleepFor(absl::Milliseconds(1));
    Request request = MakeParallel("waits", 2, 3, 5);
    request.time_limit = absl::Milliseconds(10);
    request.deadline = absl::Now() + absl::Seconds(600);
    const auto waiting = fake.Submit(request);
    ASSERT_TRUE(waiting->WaitForEnd());
    EXPECT_EQ(waiting->finish(1)->reason, FinishReason::kTimeLimit);
    EXPECT_EQ(waiting->finish(1)->timings.first_scheduled, std::nullopt);
    EXPECT_EQ(running->num_ends(), 0);
    fake.group.Resume();
    ASSERT_TRUE(running->WaitForEnd());
  }
  EXPECT_EQ(statistics.ends, (std::map<std::string, std::uint64_t>{{"length", 1}, {"time_limit", 1}}));
}

TEST_P(SequencesTest, HearOfADeadlineThatComesBeforeTheTimeLimit) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  Request request = MakeParallel("a", 1, 3, 5);
  request.deadline = absl::Now() + absl::Milliseconds(10);
  request.time_limit = absl::Seconds(600);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(SequencesTest, EndAtOnceWithATimeLimitOfNothing) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeParallel("a", 1, 3, 5);
  request.time_limit = absl::ZeroDuration();
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kTimeLimit);
}

}  // namespace
}  // namespace trireme::server
