#include "worker/control/step_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "absl/time/clock.h"
#include "base/duration_message.h"
#include "base/mutex.h"
#include "tests/worker/control/fake_executor.h"

namespace trireme::worker {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

// Keeps what the loop sends, in order.
class RecordingSink : public MessageSink {
 public:
  void Send(const v1::ConnectRequest& message) override {
    MutexLock lock(mutex_);
    messages_.push_back(message);
    changed_.SignalAll();
  }

  // The next message; an empty one if none comes.
  v1::ConnectRequest Next() {
    const absl::Time deadline = absl::Now() + kPatience;
    MutexLock lock(mutex_);
    while (messages_.empty() && changed_.WaitUntil(mutex_, deadline)) continue;
    if (messages_.empty()) return {};
    v1::ConnectRequest message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

  std::size_t size() {
    MutexLock lock(mutex_);
    return messages_.size();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<v1::ConnectRequest> messages_ ABSL_GUARDED_BY(mutex_);
};

// A door that steps wait at.
class Gate {
 public:
  void Open() {
    MutexLock lock(mutex_);
    is_open_ = true;
    changed_.SignalAll();
  }
  void Pass() {
    const absl::Time deadline = absl::Now() + kPatience;
    MutexLock lock(mutex_);
    while (!is_open_ && changed_.WaitUntil(mutex_, deadline)) continue;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
};

v1::Step MakeStep(std::uint64_t number) {
  v1::Step step;
  step.set_number(number);
  step.add_items()->set_slot(3);
  return step;
}

StepLoop::Options Rank0(FakeExecutor::OnStep on_step) {
  return {.sends_results = true,
          .load = [on_step](LoadProgress&) -> absl::StatusOr<std::unique_ptr<Executor>> {
            return std::make_unique<FakeExecutor>(on_step);
          },
          .on_end = [](const absl::Status&) {}};
}

absl::Status Succeed(const v1::Step&) { return absl::OkStatus(); }

absl::Status EndOf(StepLoop& loop) {
  return loop.WaitForEnd(absl::Now() + kPatience).value_or(absl::InternalError("still runs"));
}

TEST(StepLoop, SaysWhatItHasLoadedThenRunsStepsInOrder) {
  RecordingSink sink;
  std::vector<std::uint64_t> seen;
  StepLoop loop(Rank0([&](const v1::Step& step) {
                  seen.push_back(step.number());
                  return absl::OkStatus();
                }),
                &sink);
  const v1::ConnectRequest ready = sink.Next();
  EXPECT_EQ(ready.ready().weight_bytes(), 4096u);
  EXPECT_EQ(ready.ready().bytes_read(), 2048u);
  EXPECT_EQ(ready.ready().kv_cache_bytes(), 1024u);
  EXPECT_THAT(ready.ready().num_kv_blocks(), testing::ElementsAre(kFakeKvBlocks));
  for (std::uint64_t n = 1; n <= 100; ++n) {
    ASSERT_TRUE(loop.Push(MakeStep(n)).ok());
    const v1::ConnectRequest message = sink.Next();
    EXPECT_EQ(message.step_result().step(), n);
    EXPECT_EQ(message.step_result().slots(0).tokens(0).token_id(), FakeToken(3, n));
  }
  loop.Drain();
  EXPECT_TRUE(EndOf(loop).ok());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(StepLoop, OtherRanksSendNoResultsButTheirHeartbeatsTellTheSteps) {
  RecordingSink sink;
  StepLoop::Options options = Rank0(Succeed);
  options.sends_results = false;
  StepLoop loop(std::move(options), &sink);
  sink.Next();
  EXPECT_EQ(loop.heartbeat().last_step_finished(), 0u);
  ASSERT_TRUE(loop.Push(MakeStep(1)).ok());
  ASSERT_TRUE(loop.Push(MakeStep(2)).ok());
  loop.Drain();
  EXPECT_TRUE(EndOf(loop).ok());
  EXPECT_EQ(sink.size(), 0u);
  EXPECT_EQ(loop.heartbeat().last_step_begun(), 2u);
  EXPECT_EQ(loop.heartbeat().last_step_finished(), 2u);
}

TEST(StepLoop, HeartbeatsTellOfLoadingAndOfAStepUnderWay) {
  RecordingSink sink;
  Gate half;
  Gate rest;
  Gate step;
  StepLoop::Options options = Rank0([&](const v1::Step&) {
    step.Pass();
    return absl::OkStatus();
  });
  options.load = [&, load = options.load](LoadProgress& progress) {
    progress.total_bytes = 10;
    progress.loaded_bytes = 5;
    half.Open();
    rest.Pass();
    return load(progress);
  };
  StepLoop loop(std::move(options), &sink);
  half.Pass();
  EXPECT_EQ(loop.heartbeat().loaded_bytes(), 5u);
  EXPECT_EQ(loop.heartbeat().total_bytes(), 10u);
  rest.Open();
  sink.Next();
  ASSERT_TRUE(loop.Push(MakeStep(1)).ok());
  const absl::Time deadline = absl::Now() + kPatience;
  while (loop.heartbeat().last_step_begun() != 1 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(loop.heartbeat().last_step_begun(), 1u);
  EXPECT_EQ(loop.heartbeat().last_step_finished(), 0u);
  step.Open();
  loop.Drain();
  EXPECT_TRUE(EndOf(loop).ok());
}

TEST(StepLoop, HeartbeatsTellWhatTheStepsHaveCostAndNotWhatLoadingHas) {
  RecordingSink sink;
  CollectiveTimes times = {
      .count = 7, .total = absl::Seconds(70), .wait = absl::Seconds(7), .lateness = absl::Seconds(6)};
  StepLoop::Options options = Rank0([&times](const v1::Step&) {
    absl::SleepFor(absl::Milliseconds(10));
    times.count += 3;
    times.total += absl::Milliseconds(1500);
    times.wait += absl::Milliseconds(250);
    times.lateness += absl::Milliseconds(125);
    return absl::OkStatus();
  });
  options.collective_times = [&times] { return times; };
  StepLoop loop(std::move(options), &sink);
  sink.Next();
  EXPECT_EQ(DurationFrom(loop.heartbeat().step_times().collectives()), absl::ZeroDuration());
  ASSERT_TRUE(loop.Push(MakeStep(1)).ok());
  ASSERT_TRUE(loop.Push(MakeStep(2)).ok());
  loop.Drain();
  EXPECT_TRUE(EndOf(loop).ok());
  const v1::StepTimes told = loop.heartbeat().step_times();
  EXPECT_GE(DurationFrom(told.steps()), absl::Milliseconds(20));
  EXPECT_EQ(told.num_collectives(), 6u);
  EXPECT_EQ(DurationFrom(told.collectives()), absl::Seconds(3));
  EXPECT_EQ(DurationFrom(told.collective_waits()), absl::Milliseconds(500));
  EXPECT_EQ(DurationFrom(told.lateness()), absl::Milliseconds(250));
}

TEST(StepLoop, AFailedLoadIsToldBeforeTheEnd) {
  RecordingSink sink;
  std::size_t sent_at_end = 0;
  StepLoop::Options options = Rank0(Succeed);
  options.load = [](LoadProgress&) { return absl::NotFoundError("no model at /nowhere"); };
  options.on_end = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    sent_at_end = sink.size();
  };
  StepLoop loop(std::move(options), &sink);
  EXPECT_EQ(EndOf(loop).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(sent_at_end, 1u);
  const v1::ConnectRequest message = sink.Next();
  EXPECT_EQ(message.failure().code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_EQ(message.failure().message(), "no model at /nowhere");
  EXPECT_EQ(message.failure().step(), 0u);
}

TEST(StepLoop, AFailedStepIsToldWithItsNumberAndEndsTheLoop) {
  RecordingSink sink;
  StepLoop loop(Rank0([](const v1::Step& step) {
                  return step.number() == 2 ? absl::DataLossError("bad slot") : absl::OkStatus();
                }),
                &sink);
  sink.Next();
  for (std::uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(loop.Push(MakeStep(n)).ok());
  EXPECT_EQ(EndOf(loop).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(sink.Next().step_result().step(), 1u);
  const v1::ConnectRequest failure = sink.Next();
  EXPECT_EQ(failure.failure().step(), 2u);
  EXPECT_EQ(failure.failure().message(), "bad slot");
  EXPECT_EQ(sink.size(), 0u);
}

TEST(StepLoop, RefusesStepsThatAServerInItsSensesWouldNotSend) {
  RecordingSink sink;
  Gate gate;
  StepLoop loop(Rank0([&](const v1::Step&) {
                  gate.Pass();
                  return absl::OkStatus();
                }),
                &sink);
  sink.Next();
  EXPECT_EQ(loop.Push(MakeStep(2)).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(loop.Push(MakeStep(1)).ok());
  EXPECT_EQ(loop.Push(MakeStep(1)).code(), absl::StatusCode::kInvalidArgument);
  absl::Status status;
  std::uint64_t number = 2;
  while (status.ok() && number < 100) status = loop.Push(MakeStep(number++));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  gate.Open();
  loop.Drain();
  EXPECT_TRUE(EndOf(loop).ok());
  EXPECT_EQ(loop.Push(MakeStep(number)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(StepLoop, RefusesAStepBeforeItIsReady) {
  RecordingSink sink;
  Gate gate;
  StepLoop::Options options = Rank0(Succeed);
  options.load = [&, load = options.load](LoadProgress& progress) {
    gate.Pass();
    return load(progress);
  };
  StepLoop loop(std::move(options), &sink);
  EXPECT_EQ(loop.Push(MakeStep(1)).code(), absl::StatusCode::kFailedPrecondition);
  gate.Open();
  loop.Drain();
  EXPECT_TRUE(EndOf(loop).ok());
}

TEST(StepLoop, StopDropsWhatWaits) {
  RecordingSink sink;
  Gate gate;
  StepLoop loop(Rank0([&](const v1::Step&) {
                  gate.Pass();
                  return absl::OkStatus();
                }),
                &sink);
  sink.Next();
  for (std::uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(loop.Push(MakeStep(n)).ok());
  while (loop.heartbeat().last_step_begun() != 1) absl::SleepFor(absl::Milliseconds(1));
  loop.Stop(absl::CancelledError("the server is gone"));
  EXPECT_FALSE(loop.WaitForEnd(absl::Now() + absl::Milliseconds(50)).has_value()) << "step 1 still runs";
  gate.Open();
  EXPECT_EQ(EndOf(loop).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(loop.heartbeat().last_step_begun(), 1u);
}

}  // namespace
}  // namespace trireme::worker
