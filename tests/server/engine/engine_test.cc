// What the engine promises each caller, one behaviour a test, for one step in flight and for two.
#include "server/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::uint32_t> Prompt(std::uint32_t length) {
  std::vector<std::uint32_t> prompt(length);
  std::iota(prompt.begin(), prompt.end(), 100);
  return prompt;
}

std::vector<std::uint32_t> FirstOf(const std::vector<std::uint32_t>& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

class EngineTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  EngineOptions options() const { return SmallEngine(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, EngineTest, testing::Values(1, 2, 3));

TEST_P(EngineTest, GeneratesWhatTheModelSays) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  for (std::uint32_t length : {1u, 3u, 4u, 5u, 15u, 16u, 17u, 40u}) {
    for (std::uint32_t max_tokens : {1u, 2u, 9u}) {
      const Request request = MakeRequest("a", Prompt(length), max_tokens, length);
      const auto recorder = fake.Submit(request);
      ASSERT_TRUE(recorder->WaitForEnd());
      EXPECT_EQ(recorder->tokens(), Solo(request));
      EXPECT_EQ(recorder->finish()->reason, FinishReason::kLength);
      EXPECT_EQ(recorder->finish()->matched_stop_token_id, std::nullopt);
    }
  }
}

TEST_P(EngineTest, EndsAtAStopToken) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(5), 20);
  const std::vector<std::uint32_t> solo = Solo(request);
  request.stopping.stop_token_ids = {solo[6]};
  request.stopping.eos_token_ids = {solo[9]};
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(solo, 7));  // the stop token is among them
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kStop);
  EXPECT_EQ(recorder->finish()->matched_stop_token_id, solo[6]);
}

TEST_P(EngineTest, EndsAtTheEndOfSequence) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(5), 20);
  const std::vector<std::uint32_t> solo = Solo(request);
  request.stopping.eos_token_ids = {solo[3], solo[8]};
  auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(solo, 4));
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kEos);
  EXPECT_EQ(recorder->finish()->matched_stop_token_id, solo[3]);

  request.stopping.eos_token_ids = {};  // ignored
  recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), solo);
}

TEST_P(EngineTest, SaysStopWhereTheEndOfSequenceIsAStopTokenToo) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(2), 1);
  request.stopping.eos_token_ids = request.stopping.stop_token_ids = {Solo(request)[0]};
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kStop);  // and not kLength, though it is the last one, too
}

TEST_P(EngineTest, EndsWhenTheContextIsFull) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const Request request = MakeRequest("a", Prompt(60), 100);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(Solo(request), 4));  // 64 in all
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kLength);
}

TEST_P(EngineTest, EndsWhenTheKvCacheIsFull) {
  EngineOverFake fake(options(), {9, 3, 5});  // 12 tokens, and one from which nothing is computed
  fake.group.BringUp();
  const Request request = MakeRequest("a", Prompt(12), 100);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(Solo(request), 1));
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kLength);
}

TEST_P(EngineTest, PassesLogprobsOn) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(3), 2);
  request.sampling.logprobs = 5;
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  ASSERT_TRUE(recorder->last().logprob.has_value());
  EXPECT_EQ(recorder->last().logprob->top.size(), 5u);
}

TEST_P(EngineTest, ReportsTimesInOrder) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const auto recorder = fake.Submit(MakeRequest("a", Prompt(3), 3));
  ASSERT_TRUE(recorder->WaitForEnd());
  const RequestTimings timings = recorder->finish()->timings;
  ASSERT_TRUE(timings.first_scheduled.has_value() && timings.first_token.has_value());
  EXPECT_LE(absl::ZeroDuration(), *timings.first_scheduled);
  EXPECT_LE(*timings.first_scheduled, *timings.first_token);
  EXPECT_LE(*timings.first_token, timings.finished);
}

// ---- Refusals.

TEST_P(EngineTest, RefusesWhatCannotBeServed) {
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

TEST_P(EngineTest, RefusesASecondRequestOfALiveId) {
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

TEST_P(EngineTest, RefusesWhatTheQueueCannotHoldAndSaysThatARetryMayHelp) {
  EngineOptions limited = options();
  limited.max_waiting_requests = 2;
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
  EXPECT_EQ(full.message(), "the queue is full: 2 requests wait");
  EXPECT_TRUE(IsRetryable(full));
  fake.group.Resume();
  for (const auto& recorder : recorders) ASSERT_TRUE(recorder->WaitForEnd());
}

TEST_P(EngineTest, DrainsWhatIsAliveAndTakesNoMore) {
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

// ---- Cancel, abort, deadlines.

TEST_P(EngineTest, FreesBlocksOfACancelledRequestWithoutAStep) {
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

TEST_P(EngineTest, CancelsAWaitingRequestAndNoOther) {
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

TEST_P(EngineTest, IgnoresACancelByAFormerOwnerOfTheId) {
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

TEST_P(EngineTest, AbortsWithWhatThereIs) {
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

TEST_P(EngineTest, AbortsARequestThatWaits) {
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

TEST_P(EngineTest, EndsAtTheDeadlineEvenIfTheWorkersAreSilent) {
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

TEST_P(EngineTest, EndsAtADeadlineThatHasPassedBeforeTheStart) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(5), 50);
  request.deadline = absl::InfinitePast();
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(recorder->tokens(), IsEmpty());
}

// ---- Loss of the group.

TEST_P(EngineTest, ResumesRunningRequestsWithTheNextGroup) {
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

TEST_P(EngineTest, KeepsCancelsAbortsAndDeadlinesOfThoseThatAwaitTheNextGroup) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause(3);
  Request late = MakeRequest("late", Prompt(5), 50);
  late.deadline = absl::Now() + absl::Milliseconds(300);
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

TEST_P(EngineTest, ServesWaitingRequestsWithTheNextGroup) {
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

TEST_P(EngineTest, EndsRunningRequestsWhenTheGroupIsDownForGood) {
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

TEST_P(EngineTest, EndsWaitingRequestsToo_WhenTheGroupIsDownForGood) {
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

TEST_P(EngineTest, EndsWaitingRequestsThatASmallerGroupCannotHold) {
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

TEST_P(EngineTest, StaysUsableWhenTheFirstStartFails) {
  EngineOverFake fake(options());
  fake.group.TakeDown(absl::InternalError("rank 0: cannot read the model"));
  EXPECT_EQ(fake.engine.Submit(MakeRequest("a", Prompt(1), 1), std::make_shared<Recorder>()),
            absl::UnavailableError("the worker group is not up: rank 0: cannot read the model"));
  fake.group.BringUp();
  EXPECT_TRUE(fake.Submit(MakeRequest("a", Prompt(1), 1))->WaitForEnd());
}

// ---- Stop.

TEST_P(EngineTest, EndsAllRequestsWhenItStops) {
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

TEST(Engine, MayBeDestroyedBeforeItWasStarted) { Engine engine(SmallEngine(), nullptr); }

// ---- Observers.

// Submits the next request of a chain when one ends, on the engine's thread.
class Chain final : public RequestObserver, public std::enable_shared_from_this<Chain> {
 public:
  Chain(Engine* engine, int left, std::shared_ptr<Recorder> last)
      : engine_(*engine), left_(left), last_(std::move(last)) {}
  void OnPromptLogprobs(std::span<const GeneratedToken>) override {}
  AfterTokens OnTokens(std::uint32_t, std::span<const GeneratedToken>) override { return AfterTokens::kContinue; }
  void OnFinish(std::uint32_t, const Finish&) override {
    const bool is_last = left_ == 0;
    EXPECT_EQ(
        engine_.Submit(MakeRequest("a", {1, 2}, 2), is_last ? std::static_pointer_cast<RequestObserver>(last_)
                                                            : std::make_shared<Chain>(&engine_, left_ - 1, last_)),
        absl::OkStatus());
  }
  void OnError(const absl::Status& status) override { ADD_FAILURE() << status; }

 private:
  Engine& engine_;
  int left_;
  std::shared_ptr<Recorder> last_;
};

TEST_P(EngineTest, LetsObserversCallIt) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const auto last = std::make_shared<Recorder>();
  ASSERT_EQ(fake.engine.Submit(MakeRequest("a", {1, 2}, 2), std::make_shared<Chain>(&fake.engine, 20, last)),
            absl::OkStatus());
  EXPECT_TRUE(last->WaitForEnd());
}

TEST_P(EngineTest, LetsGoOfObserversThatHaveEnded) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  auto recorder = fake.Submit(MakeRequest("a", Prompt(3), 3));
  ASSERT_TRUE(recorder->WaitForEnd());
  ASSERT_TRUE(fake.Submit(MakeRequest("b", Prompt(3), 1))->WaitForEnd());
  EXPECT_EQ(recorder.use_count(), 1);
}

// ---- Options.

TEST(EngineOptions, AreValidatedByName) {
  EXPECT_EQ(Validate(SmallEngine()), absl::OkStatus());
  const auto message = [](auto change) {
    EngineOptions options = SmallEngine();
    change(options);
    EXPECT_EQ(Validate(options).code(), absl::StatusCode::kInvalidArgument);
    return std::string(Validate(options).message());
  };
  EXPECT_EQ(message([](EngineOptions& o) { o.limits.max_num_seqs = 0; }), "max_num_seqs is 0; expected at least 1");
  EXPECT_THAT(message([](EngineOptions& o) { o.limits.kv_block_tokens = 0; }), HasSubstr("kv_block_tokens"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_steps_in_flight = 0; }), HasSubstr("max_steps_in_flight"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_waiting_requests = 0; }), HasSubstr("max_waiting_requests"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_step_stretch = 0.9; }), HasSubstr("max_step_stretch is 0.9"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_step_stretch = std::nan(""); }), HasSubstr("max_step_stretch"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_model_len = 1; }),
              HasSubstr("max_model_len is 1; expected at least 2"));
  EXPECT_THAT(message([](EngineOptions& o) { o.limits.max_num_batched_tokens = 3; }),
              HasSubstr("max_num_batched_tokens is 3; expected at least max_num_seqs (4)"));
}

}  // namespace
}  // namespace trireme::server
