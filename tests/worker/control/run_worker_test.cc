#include "worker/control/run_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "base/mutex.h"
#include "tests/support/sanitizers.h"
#include "tests/worker/control/fake_executor.h"
#include "tests/worker/control/recording_host.h"

namespace trireme::worker {
namespace {

using test_support::kSlowdown;
using ::testing::HasSubstr;

// A group whose peers never come: a barrier ends by Abort only.
class LonelyCommunicator : public Communicator {
 public:
  sharding::Rank rank() const override { return {.index = 0, .world = 2}; }
  absl::Status AllReduceSum(std::span<float>) override { return Barrier(); }
  absl::Status AllGather(std::span<const std::byte>, std::span<const std::size_t>, std::span<std::byte>) override {
    return Barrier();
  }
  absl::Status ReduceScatterSum(std::span<const float>, std::span<const std::size_t>, std::span<float>) override {
    return Barrier();
  }
  absl::Status Broadcast(std::span<std::byte>, int) override { return Barrier(); }
  absl::Status AllToAll(std::span<const std::byte>, std::span<std::byte>) override { return Barrier(); }
  absl::Status Barrier(std::optional<absl::Duration> = std::nullopt) override {
    MutexLock lock(mutex_);
    while (reason_.empty()) changed_.WaitUntil(mutex_, absl::Now() + absl::Seconds(20));
    return absl::AbortedError(reason_);
  }
  void Abort(std::string_view reason) override {
    MutexLock lock(mutex_);
    reason_ = reason;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
};

// Runs one worker with a fake executor, on a thread of its own, against a host in this process.
class RunWorkerTest : public testing::Test {
 protected:
  ~RunWorkerTest() override {
    if (worker_.joinable()) worker_.join();
  }

  void Start(FakeExecutor::OnStep on_step) { Start(WorkerOptions{}, PartsThat(std::move(on_step))); }
  void Start(WorkerOptions options, WorkerParts parts) {
    options.control_address = host_.address();
    if (options.spawn_token.empty()) options.spawn_token = "token";
    worker_ = std::thread([this, options, parts = std::move(parts)] { end_ = RunWorker(options, parts); });
  }
  WorkerParts PartsThat(FakeExecutor::OnStep on_step) {
    return {.make_communicator = [](const v1::Configure&) -> absl::StatusOr<std::unique_ptr<Communicator>> {
              return std::make_unique<LonelyCommunicator>();
            },
            .load_executor = [this, on_step](const v1::Configure& configure, Communicator& communicator,
                                             LoadProgress&) -> absl::StatusOr<std::unique_ptr<Executor>> {
              configured_ = configure;
              communicator_ = &communicator;
              return std::make_unique<FakeExecutor>(on_step);
            }};
  }
  void StartAndAwaitReady(FakeExecutor::OnStep on_step) {
    Start(std::move(on_step));
    ASSERT_TRUE(host_.Next().has_hello());
    host_.Configure();
    ASSERT_TRUE(host_.Next().has_ready());
  }
  absl::Status End() {
    worker_.join();
    return end_;
  }

  static absl::Status Succeed(const v1::Step&) { return absl::OkStatus(); }

  server::RecordingHost host_;
  v1::Configure configured_;
  std::atomic<Communicator*> communicator_ = nullptr;
  std::thread worker_;
  absl::Status end_;
};

TEST_F(RunWorkerTest, IntroducesItself) {
  Start(Succeed);
  const v1::ConnectRequest message = host_.Next();
  EXPECT_EQ(message.hello().build_id(), BuildId());
  EXPECT_EQ(message.hello().pid(), getpid());
  EXPECT_EQ(message.hello().device(), "cpu");
  EXPECT_FALSE(message.hello().host().empty());
  host_.EndStream();
  EXPECT_FALSE(End().ok());
}

TEST_F(RunWorkerTest, ServesStepsUntilItIsDrained) {
  StartAndAwaitReady(Succeed);
  EXPECT_EQ(configured_.collective_timeout().seconds(), 60);
  host_.SendStep(1);
  host_.SendStep(2);
  host_.Drain();
  for (std::uint64_t n = 1; n <= 2; ++n) {
    const v1::ConnectRequest message = host_.Next();
    EXPECT_EQ(message.step_result().step(), n);
    EXPECT_EQ(message.step_result().slots(0).tokens(0).token_id(), FakeToken(1, n));
  }
  EXPECT_TRUE(End().ok());
  EXPECT_TRUE(host_.AwaitEnd());
}

TEST_F(RunWorkerTest, HeartbeatsGoOnWhileItLoadsAndWhileAStepRuns) {
  StartAndAwaitReady([this](const v1::Step&) { return communicator_.load()->Barrier(); });
  host_.SendStep(1);
  v1::ConnectRequest message;
  do message = host_.NextOfAll();
  while (message.has_heartbeat() && message.heartbeat().last_step_begun() == 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(host_.NextOfAll().has_heartbeat());
  host_.EndStream();
  EXPECT_FALSE(End().ok());
}

TEST_F(RunWorkerTest, TheStreamsEndEndsACollective) {
  StartAndAwaitReady([this](const v1::Step&) { return communicator_.load()->Barrier(); });
  host_.SendStep(1);
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time ended = absl::Now();
  host_.EndStream();
  EXPECT_THAT(End().ToString(), HasSubstr("the test is over"));
  EXPECT_LT(absl::Now() - ended, absl::Seconds(1) * kSlowdown);
}

TEST_F(RunWorkerTest, AStepThatFailsIsToldWithItsNumber) {
  Start(WorkerOptions{}, PartsThat([](const v1::Step&) { return absl::InternalError("a bad slot"); }));
  ASSERT_TRUE(host_.Next().has_hello());
  host_.Configure();
  ASSERT_TRUE(host_.Next().has_ready());
  host_.SendStep(1);
  const v1::ConnectRequest message = host_.Next();
  EXPECT_EQ(message.failure().message(), "a bad slot");
  EXPECT_EQ(message.failure().step(), 1u);
  EXPECT_EQ(End().code(), absl::StatusCode::kInternal);
}

TEST_F(RunWorkerTest, ALoadThatFailsIsTold) {
  WorkerParts parts = PartsThat(Succeed);
  parts.load_executor = [](const v1::Configure&, Communicator&, LoadProgress&) {
    return absl::NotFoundError("no such model");
  };
  Start(WorkerOptions{}, std::move(parts));
  ASSERT_TRUE(host_.Next().has_hello());
  host_.Configure();
  EXPECT_EQ(host_.Next().failure().code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_EQ(End().code(), absl::StatusCode::kNotFound);
}

TEST_F(RunWorkerTest, ACommunicatorThatCannotBeMadeIsTold) {
  WorkerParts parts = PartsThat(Succeed);
  parts.make_communicator = [](const v1::Configure&) { return absl::InvalidArgumentError("another group's memory"); };
  Start(WorkerOptions{}, std::move(parts));
  ASSERT_TRUE(host_.Next().has_hello());
  host_.Configure();
  EXPECT_EQ(host_.Next().failure().message(), "another group's memory");
  EXPECT_EQ(End().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RunWorkerTest, AFirstMessageThatIsNotConfigureIsTold) {
  Start(Succeed);
  ASSERT_TRUE(host_.Next().has_hello());
  host_.SendStep(1);
  EXPECT_THAT(host_.Next().failure().message(), HasSubstr("not Configure"));
  EXPECT_EQ(End().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RunWorkerTest, AHeartbeatIntervalOfZeroIsTold) {
  Start(Succeed);
  ASSERT_TRUE(host_.Next().has_hello());
  v1::ConnectResponse message;
  message.mutable_configure();
  host_.Send(message);
  EXPECT_THAT(host_.Next().failure().message(), HasSubstr("heartbeat_interval must be > 0"));
  EXPECT_EQ(End().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RunWorkerTest, AServerThatLosesCountIsTold) {
  StartAndAwaitReady(Succeed);
  host_.SendStep(7);
  const v1::ConnectRequest message = host_.Next();
  EXPECT_THAT(message.failure().message(), HasSubstr("step 7 came where step 1 was due"));
  EXPECT_EQ(End().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RunWorkerTest, LeavesIfItIsRefused) {
  Start({.spawn_token = "another"}, PartsThat(Succeed));
  const absl::Status end = End();
  EXPECT_EQ(end.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(end.ToString(), HasSubstr("a stranger"));
}

TEST_F(RunWorkerTest, LeavesIfItIsNotConfiguredInTime) {
  Start({.configure_timeout = absl::Milliseconds(100)}, PartsThat(Succeed));
  EXPECT_THAT(End().ToString(), HasSubstr("did not configure"));
}

TEST(RunWorker, LeavesIfNobodyAnswers) {
  const absl::Status end =
      RunWorker({.control_address = "unix:/nowhere/control", .dial_timeout = absl::Milliseconds(100)}, {});
  EXPECT_EQ(end.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(end.ToString(), HasSubstr("unix:/nowhere/control"));
}

}  // namespace
}  // namespace trireme::worker
