#include "server/coordinator/worker_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/version.h"
#include "tests/server/coordinator/children.h"
#include "tests/server/coordinator/recording_listener.h"
#include "tests/support/sanitizers.h"
#include "tests/worker/control/fake_executor.h"

namespace trireme::server {
namespace {

using test_support::kSlowdown;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

constexpr absl::Duration kPatience = absl::Seconds(30);

WorkerGroupOptions Options(int tp_degree) {
  WorkerGroupOptions options;
  options.worker_binary = TRIREME_SCRIPTED_WORKER;
  options.tp_degree = tp_degree;
  options.model_path = "/no/model";
  options.max_model_len = 128;
  options.limits.max_num_seqs = 4;
  options.limits.max_num_batched_tokens = 64;
  options.limits.max_logit_rows = 64;
  options.limits.kv_block_tokens = 16;
  options.kv_cache_bytes = 1 << 20;
  options.num_threads = 1;
  options.restarts.first_backoff = absl::Milliseconds(10);
  return options;
}

// Starts groups whose workers follow a script, and asserts at the end that no process is left.
class WorkerGroupTest : public testing::Test {
 protected:
  WorkerGroupTest() {
    AdoptOrphans();
    // LeakSanitizer looks for leaks from a process that it clones, which a worker that is killed leaves behind.
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
  }
  ~WorkerGroupTest() override {
    if (group_ != nullptr) group_->Stop();
    EXPECT_THAT(Children(), IsEmpty());
    unsetenv("TRIREME_TEST_SCRIPT");
  }

  void Start(const WorkerGroupOptions& options, const char* script = "") {
    setenv("TRIREME_TEST_SCRIPT", script, 1);
    group_ = std::make_unique<WorkerGroup>(options);
    ASSERT_TRUE(group_->Start(&listener_).ok());
  }
  void StartAndAwaitUp(const WorkerGroupOptions& options, const char* script = "") {
    Start(options, script);
    const std::optional<GroupCapacity> up = listener_.NextUp();
    ASSERT_TRUE(up.has_value()) << LastCause();
    generation_ = up->generation;
    EXPECT_THAT(up->num_kv_blocks, ElementsAre(worker::kFakeKvBlocks));
  }
  void Send(std::uint64_t number) {
    group_->Send({.generation = generation_,
                  .number = number,
                  .releases = {},
                  .admissions = {},
                  .items = {{.slot = 2, .num_tokens = 1, .new_blocks = {}}}});
  }
  void ExpectResult(std::uint64_t number) {
    const std::optional<StepResult> result = listener_.NextResult();
    ASSERT_TRUE(result.has_value()) << LastCause();
    EXPECT_EQ(result->number, number);
    ASSERT_EQ(result->slots.size(), 1u);
    EXPECT_EQ(result->slots[0].tokens.at(0).token_id, worker::FakeToken(2, number));
  }
  // The cause of a loss that a restart follows.
  std::string ExpectLoss(absl::Duration patience = kPatience) {
    const std::optional<RecordingListener::Down> down = listener_.NextDown(patience);
    if (!down) return "no loss";
    EXPECT_FALSE(down->for_good) << down->cause;
    return std::string(down->cause.message());
  }
  std::string ExpectLossForGood() {
    const std::optional<RecordingListener::Down> down = listener_.NextDown();
    if (!down) return "no loss";
    EXPECT_TRUE(down->for_good) << down->cause;
    return std::string(down->cause.message());
  }
  // For messages of failed assertions.
  absl::Status LastCause() const {
    const std::optional<GroupLoss> loss = group_->status().last_loss;
    return loss ? loss->cause.status : absl::OkStatus();
  }
  // Of the last loss.
  std::string KindAndRank() const {
    const std::optional<GroupLoss> loss = group_->status().last_loss;
    if (!loss) return "no loss";
    return std::string(NameOf(loss->cause.kind)) + (loss->cause.rank ? " " + std::to_string(*loss->cause.rank) : "");
  }
  pid_t PidOf(int rank) { return static_cast<pid_t>(group_->status().ranks.at(rank).pid); }

  RecordingListener listener_;
  std::unique_ptr<WorkerGroup> group_;
  std::uint64_t generation_ = 0;
};

class WorkerGroupOfAnySize : public WorkerGroupTest, public testing::WithParamInterface<int> {};

TEST_P(WorkerGroupOfAnySize, ComesUpRunsStepsAndDrains) {
  StartAndAwaitUp(Options(GetParam()));
  for (std::uint64_t n = 1; n <= 20; ++n) {
    Send(n);
    ExpectResult(n);
  }
  EXPECT_TRUE(group_->Drain(absl::Now() + kPatience).ok());
  EXPECT_THAT(Children(), IsEmpty());
  EXPECT_FALSE(listener_.NextDown(absl::ZeroDuration()).has_value());
}
INSTANTIATE_TEST_SUITE_P(Sizes, WorkerGroupOfAnySize, testing::Values(1, 2, 3, 9));

TEST_F(WorkerGroupTest, TellsWhatItKnowsOfItsRanks) {
  StartAndAwaitUp(Options(2));
  Send(1);
  ExpectResult(1);
  const absl::Time deadline = absl::Now() + kPatience;
  const auto has_finished_a_step = [](const RankStatus& rank) { return rank.last_step_finished == 1; };
  while (absl::Now() < deadline) {  // the heartbeats tell
    const std::vector<RankStatus> ranks = group_->status().ranks;
    if (std::all_of(ranks.begin(), ranks.end(), has_finished_a_step)) break;
    absl::SleepFor(absl::Milliseconds(5));
  }
  const GroupStatus status = group_->status();
  EXPECT_EQ(status.generation, 1u);
  EXPECT_EQ(status.num_restarts, 0u);
  EXPECT_TRUE(status.is_up);
  EXPECT_FALSE(status.is_given_up);
  EXPECT_FALSE(status.last_loss.has_value());
  ASSERT_EQ(status.ranks.size(), 2u);
  for (int rank = 0; rank < 2; ++rank) {
    const RankStatus& of_rank = status.ranks[rank];
    EXPECT_EQ(of_rank.rank, rank);
    EXPECT_EQ(kill(static_cast<pid_t>(of_rank.pid), 0), 0);
    EXPECT_EQ(of_rank.device, "cpu");
    EXPECT_FALSE(of_rank.host.empty());
    EXPECT_EQ(of_rank.state, RankState::kReady);
    EXPECT_EQ(of_rank.weight_bytes, 4096u);
    EXPECT_EQ(of_rank.bytes_read, 2048u);
    EXPECT_EQ(of_rank.kv_cache_bytes, 1024u);
    EXPECT_EQ(of_rank.last_step_finished, 1u);
    EXPECT_TRUE(of_rank.last_heartbeat.has_value());
    EXPECT_EQ(of_rank.times.num_collectives, 1u) << "the step's, but not that of loading";
    EXPECT_GT(of_rank.times.collectives, absl::ZeroDuration());
    EXPECT_GE(of_rank.times.steps, of_rank.times.collectives);
    EXPECT_GE(of_rank.times.collectives, of_rank.times.collective_waits);
  }
  EXPECT_EQ(status.ranks[0].times.lateness, status.ranks[1].times.collective_waits) << "one waits for the other";
  EXPECT_EQ(status.ranks[1].times.lateness, status.ranks[0].times.collective_waits);
  group_->Stop();
  EXPECT_FALSE(group_->status().is_up);
  EXPECT_EQ(group_->status().ranks.at(0).state, RankState::kStopped);
}

TEST_F(WorkerGroupTest, TwoStepsMayBeInFlightAndADrainFinishesThem) {
  StartAndAwaitUp(Options(2));
  Send(1);
  Send(2);
  EXPECT_TRUE(group_->Drain(absl::Now() + kPatience).ok());
  ExpectResult(1);
  ExpectResult(2);
}

TEST_F(WorkerGroupTest, AStepMayBeOfAnySize) {
  StartAndAwaitUp(Options(2));
  std::uint64_t number = 0;
  for (const std::size_t num_tokens : {1, 1000, 30'000, 131'072, 3'000'000}) {  // the last is above gRPC's usual limit
    const std::vector<std::uint32_t> tokens(num_tokens, 100'000);
    group_->Send({.generation = generation_,
                  .number = ++number,
                  .releases = {},
                  .admissions = {{.slot = 2, .epoch = number, .tokens = tokens, .sampling = {}}},
                  .items = {{.slot = 2, .num_tokens = 1, .new_blocks = {}}}});
    const absl::Time sent = absl::Now();
    ExpectResult(number);
    EXPECT_LT(absl::Now() - sent, absl::Seconds(5) * kSlowdown);
  }
}

TEST_F(WorkerGroupTest, AKilledRankIsNamedWithinASecondAndTheGroupComesAgain) {
  for (int rank = 0; rank < 3; ++rank) {
    StartAndAwaitUp(Options(3));
    const pid_t pid = PidOf(rank);
    const absl::Time killed = absl::Now();
    kill(pid, SIGKILL);
    EXPECT_EQ(ExpectLoss(),
              "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ") was killed by SIGKILL");
    EXPECT_LT(absl::Now() - killed, absl::Seconds(1) * kSlowdown);
    const std::optional<GroupCapacity> up = listener_.NextUp();
    ASSERT_TRUE(up.has_value());
    EXPECT_EQ(up->generation, 2u);
    generation_ = up->generation;
    Send(1);
    ExpectResult(1);
    EXPECT_EQ(group_->status().num_restarts, 1u);
    const std::optional<GroupLoss> loss = group_->status().last_loss;
    ASSERT_TRUE(loss.has_value());
    EXPECT_EQ(loss->cause.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(loss->cause.kind, CauseKind::kKilled);
    EXPECT_EQ(loss->cause.rank, rank);
    EXPECT_GE(loss->time, killed);
    group_->Stop();
  }
}

TEST_F(WorkerGroupTest, StepsForAGroupThatIsGoneAreDropped) {
  StartAndAwaitUp(Options(2));
  Send(1);
  ExpectResult(1);
  kill(PidOf(1), SIGKILL);
  ExpectLoss();
  Send(2);
  ASSERT_TRUE(listener_.NextUp().has_value());
  Send(2);  // of generation 1 still
  EXPECT_FALSE(listener_.NextResult(absl::Milliseconds(200)).has_value());
  generation_ = 2;
  Send(1);
  ExpectResult(1);
}

TEST_F(WorkerGroupTest, ARankThatDiesInAStepIsTheCauseAndNotTheOnesThatWaitForIt) {
  StartAndAwaitUp(Options(3), "at=step step=3 rank=1 generation=1 do=exit");
  for (std::uint64_t n = 1; n <= 3; ++n) Send(n);
  EXPECT_THAT(ExpectLoss(), MatchesRegex("rank 1 \\(pid [0-9]+\\) exited with status 3"));
  ASSERT_TRUE(listener_.NextUp().has_value());
  EXPECT_EQ(KindAndRank(), "exited 1");
}

TEST_F(WorkerGroupTest, AFailureInAStepIsToldInTheRanksOwnWords) {
  StartAndAwaitUp(Options(3), "at=step step=2 rank=2 generation=1 do=fail code=13");
  Send(1);
  Send(2);
  const std::optional<RecordingListener::Down> down = listener_.NextDown();
  ASSERT_TRUE(down.has_value());
  EXPECT_EQ(down->cause.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(down->cause.message()),
              MatchesRegex("rank 2 \\(pid [0-9]+\\) failed in step 2: as the script says"));
  ASSERT_TRUE(listener_.NextUp().has_value());
  EXPECT_EQ(KindAndRank(), "failed 2");
}

TEST_F(WorkerGroupTest, AFrozenRankIsNamedWithItsSteps) {
  WorkerGroupOptions options = Options(2);
  options.timeouts.frozen_after = absl::Seconds(1);
  StartAndAwaitUp(options);
  Send(1);
  ExpectResult(1);
  absl::SleepFor(absl::Milliseconds(300));  // let the heartbeat tell of it
  const pid_t pid = PidOf(1);
  kill(pid, SIGSTOP);
  EXPECT_EQ(ExpectLoss(),
            "rank 1 (pid " + std::to_string(pid) + ") sent no heartbeat for 1s; last step begun 1, finished 1");
  EXPECT_FALSE(group_->status().is_up) << "though the frozen one has half a second to leave";
  ASSERT_TRUE(listener_.NextUp().has_value());
  EXPECT_EQ(KindAndRank(), "timed_out 1");
}

TEST_F(WorkerGroupTest, AFrozenRankIsFoundWithinTenSecondsByDefault) {
  StartAndAwaitUp(Options(2));
  kill(PidOf(0), SIGSTOP);
  EXPECT_THAT(ExpectLoss(absl::Seconds(10)), HasSubstr("sent no heartbeat for 5s"));
}

TEST_F(WorkerGroupTest, AStepThatHangsWhileHeartbeatsGoOnMeetsItsDeadline) {
  WorkerGroupOptions options = Options(2);
  options.timeouts.step_deadline = absl::Seconds(1);
  options.timeouts.collective_timeout = absl::Milliseconds(999);
  StartAndAwaitUp(options, "at=step step=2 generation=1 do=hang");
  Send(1);
  ExpectResult(1);
  Send(2);
  EXPECT_THAT(ExpectLoss(), HasSubstr("did not finish step 2 within 1s; last step begun 2, finished 1"));
  ASSERT_TRUE(listener_.NextUp().has_value());
}

TEST_F(WorkerGroupTest, APeerThatDoesNotComeToACollectiveIsNamedByTheOneThatWaits) {
  WorkerGroupOptions options = Options(2);
  options.timeouts.collective_timeout = absl::Milliseconds(500);
  StartAndAwaitUp(options, "at=step step=1 rank=1 generation=1 do=hang");
  Send(1);
  EXPECT_THAT(ExpectLoss(), AllOf(MatchesRegex("rank 0 \\(pid [0-9]+\\) failed in step 1: .*"), HasSubstr("rank 1")));
  ASSERT_TRUE(listener_.NextUp().has_value());
}

TEST_F(WorkerGroupTest, ALoadMayTakeLongerThanTheStallLimitAsLongAsItProgresses) {
  WorkerGroupOptions options = Options(2);
  options.timeouts.load_stall = absl::Milliseconds(600);
  const absl::Time start = absl::Now();
  StartAndAwaitUp(options, "at=load rank=1 do=slow");
  EXPECT_GT(absl::Now() - start, options.timeouts.load_stall);
  EXPECT_EQ(group_->status().generation, 1u);
}

TEST_F(WorkerGroupTest, ALoadThatStallsIsGivenUp) {
  WorkerGroupOptions options = Options(2);
  options.timeouts.load_stall = absl::Milliseconds(600);
  Start(options, "at=load rank=1 generation=1 do=stall");
  EXPECT_THAT(ExpectLoss(), MatchesRegex("rank 1 \\(pid [0-9]+\\) made no progress for 600ms while loading: 6 of 10 "
                                         "bytes"));
  ASSERT_TRUE(listener_.NextUp().has_value());
}

TEST_F(WorkerGroupTest, ARankThatDoesNotDialInIsNamed) {
  WorkerGroupOptions options = Options(2);
  options.timeouts.hello = absl::Milliseconds(500);
  Start(options, "at=dial do=hang");
  EXPECT_THAT(ExpectLoss(), MatchesRegex("rank 0 \\(pid [0-9]+\\) did not dial in within 500ms"));
}

TEST_F(WorkerGroupTest, AModelThatCannotBeLoadedIsForGoodAtOnce) {
  std::atomic<int> given_up = 0;
  for (const int code : {3, 5, 9}) {  // INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION
    WorkerGroupOptions options = Options(2);
    options.on_given_up = [&](const absl::Status& cause) {
      EXPECT_EQ(static_cast<int>(cause.code()), code);
      ++given_up;
    };
    Start(options, ("at=load rank=1 do=fail code=" + std::to_string(code)).c_str());
    EXPECT_THAT(ExpectLossForGood(), MatchesRegex("rank 1 \\(pid [0-9]+\\) failed: as the script says"));
    EXPECT_EQ(static_cast<int>(group_->Drain(absl::Now() + kPatience).code()), code);
    EXPECT_TRUE(group_->status().is_given_up);
    EXPECT_EQ(group_->status().generation, 1u);
  }
  EXPECT_EQ(given_up, 3);
}

TEST_F(WorkerGroupTest, AnotherBuildIsForGoodAndBothAreNamed) {
  Start(Options(2), "do=build");
  EXPECT_THAT(ExpectLossForGood(), AllOf(MatchesRegex("rank [01] \\(pid [0-9]+\\) is of build .*"),
                                         HasSubstr("0.0.0+another"), HasSubstr(std::string(BuildId()))));
  EXPECT_THAT(KindAndRank(), MatchesRegex("protocol [01]"));
}

TEST_F(WorkerGroupTest, AMissingWorkerBinaryIsForGood) {
  WorkerGroupOptions options = Options(2);
  options.worker_binary = "/nowhere/trireme-worker";
  Start(options);
  EXPECT_THAT(ExpectLossForGood(), HasSubstr("/nowhere/trireme-worker"));
  EXPECT_EQ(KindAndRank(), "not_started");
}

TEST_F(WorkerGroupTest, GivesUpWhenItIsLostTooOften) {
  std::atomic<bool> given_up = false;
  WorkerGroupOptions options = Options(1);
  options.restarts = {.max_restarts = 2, .first_backoff = absl::Milliseconds(1)};
  options.on_given_up = [&](const absl::Status&) { given_up = true; };
  Start(options, "at=load do=exit");
  ExpectLoss();
  ExpectLoss();
  EXPECT_THAT(ExpectLossForGood(), HasSubstr("exited with status 3"));
  group_->Stop();
  EXPECT_TRUE(given_up);
  EXPECT_EQ(group_->status().num_restarts, 2u);
}

TEST_F(WorkerGroupTest, DoesNotGiveUpForLossesThatAreExcused) {
  WorkerGroupOptions options = Options(1);
  options.restarts = {.max_restarts = 1, .first_backoff = absl::Milliseconds(1)};
  StartAndAwaitUp(options);
  for (std::uint64_t generation = 1; generation <= 4; ++generation) {
    kill(PidOf(0), SIGKILL);
    ExpectLoss();
    group_->ExcuseLosses({&generation, 1});
    ASSERT_TRUE(listener_.NextUp().has_value());
  }
  kill(PidOf(0), SIGKILL);
  ExpectLoss();
  ASSERT_TRUE(listener_.NextUp().has_value());
  kill(PidOf(0), SIGKILL);
  EXPECT_THAT(ExpectLossForGood(), HasSubstr("SIGKILL"));
}

TEST_F(WorkerGroupTest, WaitsBeforeItStartsAgainButNotWhenItIsStopped) {
  WorkerGroupOptions options = Options(1);
  options.restarts.first_backoff = absl::Minutes(5);
  StartAndAwaitUp(options);
  kill(PidOf(0), SIGKILL);
  ExpectLoss();
  EXPECT_FALSE(listener_.NextUp(absl::Milliseconds(300)).has_value());
  const absl::Time start = absl::Now();
  group_->Stop();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST_F(WorkerGroupTest, ADrainKillsWhatDoesNotLeaveInTime) {
  StartAndAwaitUp(Options(2), "at=step step=1 rank=1 do=hang");
  Send(1);
  const absl::Time start = absl::Now();
  const absl::Status status = group_->Drain(absl::Now() + absl::Milliseconds(300));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_THAT(Children(), IsEmpty());
}

TEST_F(WorkerGroupTest, ADrainTellsOfARankThatDiesInIt) {
  StartAndAwaitUp(Options(2), "at=step step=1 rank=1 do=kill");
  Send(1);
  const absl::Status status = group_->Drain(absl::Now() + kPatience);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was killed by SIGKILL"));
}

TEST_F(WorkerGroupTest, MayBeStoppedInEveryStage) {
  for (const char* script : {"at=dial do=hang", "at=load do=hang", "at=step step=1 do=hang"}) {
    Start(Options(2), script);
    absl::SleepFor(absl::Milliseconds(300));
    group_->Stop();
    EXPECT_THAT(Children(), IsEmpty()) << script;
    EXPECT_TRUE(group_->Drain(absl::Now() + kPatience).ok()) << "nothing is left to do";
  }
}

TEST_F(WorkerGroupTest, LeavesNothingInTheFileSystem) {
  const std::string runtime = testing::TempDir() + "/worker_group_test" + std::to_string(getpid());
  std::filesystem::create_directories(runtime);
  setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
  StartAndAwaitUp(Options(1));
  const std::filesystem::path directory = std::filesystem::directory_iterator(runtime)->path();
  const std::filesystem::path socket = std::filesystem::directory_iterator(directory)->path();
  EXPECT_EQ(std::filesystem::status(directory).permissions(), std::filesystem::perms(0700));
  EXPECT_EQ(std::filesystem::status(socket).permissions(), std::filesystem::perms(0600));
  group_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(runtime));
  unsetenv("XDG_RUNTIME_DIR");
  std::filesystem::remove_all(runtime);
}

}  // namespace
}  // namespace trireme::server
