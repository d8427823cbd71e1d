// Requests that end before they are done: cancelled, aborted, late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/server/engine/counting_statistics.h"
#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

using ::testing::IsEmpty;

// One label of a metric holds both.
TEST(OutcomeName, OfAnEndAsItShouldIsThatOfNoOtherEndAndOfNoError) {
  std::set<std::string> names;
  for (const FinishReason reason : {FinishReason::kEos, FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kTimeLimit, FinishReason::kAborted}) {
    EXPECT_TRUE(names.insert(std::string(OutcomeName(reason))).second) << OutcomeName(reason);
  }
  for (int code = 0; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    const std::string name = OutcomeName(absl::Status(static_cast<absl::StatusCode>(code), "no good"));
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

class EngineEarlyEndsTest : public EngineTest {};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, EngineEarlyEndsTest, testing::Values(1, 2, 3));

TEST_P(EngineEarlyEndsTest, FreesBlocksOfACancelledRequestWithoutAStep) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(3);
  const auto recorder = fake.Submit(MakeRequest("a", Prompt(5), 50));
  ASSERT_TRUE(recorder->WaitForTokens(3));
  fake.engine.Cancel("a", recorder.get());
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status(), absl::CancelledError("cancelled by the client"));
  EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
  EXPECT_EQ(fake.engine.loads().running_requests, 0u);
  fake.engine.Cancel("a", recorder.get());  // again: nothing
  fake.group.Resume();
  const Request next = MakeRequest("a", Prompt(7), 9);  // takes slot and blocks while the old step may be in flight
  const auto after = fake.Submit(next);
  ASSERT_TRUE(after->WaitForEnd());
  EXPECT_EQ(after->tokens(), Solo(next));
}

TEST_P(EngineEarlyEndsTest, EndsWithWhatTheCancelSays) {
  CountingStatistics statistics;
  EngineOverFake fake(options(), {64}, &statistics);
  fake.group.BringUp();
  fake.group.Pause(1);
  const auto recorder = fake.Submit(MakeRequest("a", Prompt(5), 50));
  ASSERT_TRUE(recorder->WaitForTokens(1));
  fake.engine.Cancel("a", recorder.get(), absl::ResourceExhaustedError("the client reads too slowly"));
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status(), absl::ResourceExhaustedError("the client reads too slowly"));
  fake.engine.Stop();
  EXPECT_EQ(statistics.ends, (std::map<std::string, std::uint64_t>{{"resource_exhausted", 1}}));
}

TEST_P(EngineEarlyEndsTest, CancelsAWaitingRequestAndNoOther) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(MakeRequest(std::to_string(i), Prompt(3), 6, static_cast<std::uint64_t>(i)));
    recorders.push_back(fake.Submit(requests.back()));
  }
  fake.engine.Cancel("6", recorders[6].get());
  ASSERT_TRUE(recorders[6]->WaitForEnd());
  EXPECT_EQ(recorders[6]->status().code(), absl::StatusCode::kCancelled);
  fake.group.Resume();
  for (std::size_t i = 0; i < recorders.size(); ++i) {
    ASSERT_TRUE(recorders[i]->WaitForEnd());
    EXPECT_EQ(recorders[i]->tokens(), i == 6 ? std::vector<std::uint32_t>() : Solo(requests[i]));
  }
}

TEST_P(EngineEarlyEndsTest, IgnoresACancelByAFormerOwnerOfTheId) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const auto former = fake.Submit(MakeRequest("a", Prompt(3), 1));
  ASSERT_TRUE(former->WaitForEnd());
  fake.group.Pause();
  const auto recorder = fake.Submit(MakeRequest("a", Prompt(3), 4));
  fake.engine.Cancel("a", former.get());
  fake.engine.Cancel("b", recorder.get());
  fake.group.Resume();
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens().size(), 4u);
}

TEST_P(EngineEarlyEndsTest, AbortsWithWhatThereIs) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(3);
  const Request request = MakeRequest("a", Prompt(5), 50);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForTokens(3));
  EXPECT_TRUE(fake.engine.Abort("a"));
  EXPECT_FALSE(fake.engine.Abort("b"));
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kAborted);
  EXPECT_EQ(recorder->tokens(), FirstOf(Solo(request), 3));
  EXPECT_FALSE(fake.engine.Abort("a"));
}

TEST_P(EngineEarlyEndsTest, AbortsARequestThatWaits) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  std::vector<std::shared_ptr<Recorder>> running;
  for (int i = 0; i < 4; ++i) running.push_back(fake.Submit(MakeRequest(std::to_string(i), Prompt(1), 50)));
  const auto recorder = fake.Submit(MakeRequest("a", Prompt(1), 50));
  EXPECT_TRUE(fake.engine.Abort("a"));
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kAborted);
  EXPECT_EQ(recorder->finish()->timings.first_scheduled, std::nullopt);
  EXPECT_EQ(recorder->finish()->timings.first_token, std::nullopt);
}

TEST_P(EngineEarlyEndsTest, EndsAtTheDeadlineEvenIfTheWorkersAreSilent) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  Request request = MakeRequest("a", Prompt(5), 50);
  request.deadline = absl::Now() + absl::Milliseconds(20);
  const auto running = fake.Submit(request);
  ASSERT_TRUE(running->WaitForEnd());
  EXPECT_GE(absl::Now(), request.deadline);
  EXPECT_EQ(running->status(), absl::DeadlineExceededError("the deadline passed after 0 of at most 50 tokens"));
  EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
}

TEST_P(EngineEarlyEndsTest, EndsAtADeadlineThatHasPassedBeforeTheStart) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(5), 50);
  request.deadline = absl::InfinitePast();
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(recorder->tokens(), IsEmpty());
}

}  // namespace
}  // namespace trireme::server
