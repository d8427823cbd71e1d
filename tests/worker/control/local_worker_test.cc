// The worker program from the outside, with the scripted model in place of a real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/coordinator/monotonic_clock.h"
#include "server/coordinator/worker_process.h"
#include "tests/support/sanitizers.h"
#include "tests/worker/control/recording_host.h"

namespace trireme::worker {
namespace {

using server::MonotonicNow;
using server::ProcessSpec;
using server::WorkerProcess;
using test_support::kSlowdown;

constexpr absl::Duration kPatience = absl::Seconds(20);

class LocalWorkerTest : public testing::Test {
 protected:
  ProcessSpec Spec(const std::string& script = "") {
    return {.binary = TRIREME_SCRIPTED_WORKER,
            .arguments = {"--control", host_.address(), "--parent-pid", absl::StrCat(getpid()), "--communicator-fd",
                          "3", "--log-format", "json"},
            .environment = {{"TRIREME_SPAWN_TOKEN", "token"}, {"TRIREME_TEST_SCRIPT", script}}};
  }
  WorkerProcess Spawn(const ProcessSpec& spec) {
    absl::StatusOr<WorkerProcess> process = WorkerProcess::Spawn(spec);
    CHECK_OK(process.status());
    return *std::move(process);
  }
  std::string EndOf(WorkerProcess process) {
    const auto end = process.ReapBy(MonotonicNow() + kPatience);
    return end ? end->Describe() : "still runs";
  }
  WorkerProcess SpawnReady(const std::string& script = "") {
    WorkerProcess process = Spawn(Spec(script));
    CHECK(host_.Next().has_hello());
    host_.Configure();
    CHECK(host_.Next().has_ready());
    return process;
  }

  server::RecordingHost host_;
};

TEST_F(LocalWorkerTest, LeavesWithZeroWhenDrained) {
  WorkerProcess process = SpawnReady();
  host_.Drain();
  EXPECT_EQ(EndOf(std::move(process)), "exited with status 0");
}

TEST_F(LocalWorkerTest, LeavesAtTheStreamsEndEvenFromAStepThatHangs) {
  WorkerProcess process = SpawnReady("at=step step=1 do=hang");
  host_.SendStep(1);
  while (host_.NextOfAll().heartbeat().last_step_begun() != 1) continue;
  const absl::Time ended = absl::Now();
  host_.EndStream();
  EXPECT_EQ(EndOf(std::move(process)), "exited with status 1");
  EXPECT_LT(absl::Now() - ended, absl::Seconds(1) * kSlowdown);
}

TEST_F(LocalWorkerTest, LeavesAtTheStreamsEndEvenWhileItLoads) {
  WorkerProcess process = Spawn(Spec("at=load do=hang"));
  ASSERT_TRUE(host_.Next().has_hello());
  host_.Configure();
  while (!host_.NextOfAll().has_heartbeat()) continue;
  host_.EndStream();
  EXPECT_EQ(EndOf(std::move(process)), "exited with status 1");
}

TEST_F(LocalWorkerTest, AFailureIsAnExitStatus) {
  WorkerProcess process = SpawnReady("at=step step=1 do=fail code=13");
  host_.SendStep(1);
  EXPECT_EQ(host_.Next().failure().message(), "as the script says");
  EXPECT_EQ(EndOf(std::move(process)), "exited with status 1");
}

TEST_F(LocalWorkerTest, DoesNotStartForAnotherParent) {
  ProcessSpec spec = Spec();
  spec.arguments[3] = "1";
  EXPECT_EQ(EndOf(Spawn(spec)), "exited with status 1");
}

TEST_F(LocalWorkerTest, DoesNotStartWithoutAToken) {
  ProcessSpec spec = Spec();
  spec.environment["TRIREME_SPAWN_TOKEN"] = "";
  EXPECT_EQ(EndOf(Spawn(spec)), "exited with status 1");
}

TEST_F(LocalWorkerTest, RefusesFlagsThatItDoesNotKnow) {
  ProcessSpec spec = Spec();
  spec.arguments.push_back("--tp-degree=2");
  EXPECT_EQ(EndOf(Spawn(spec)), "exited with status 2");
  EXPECT_EQ(EndOf(Spawn({.binary = TRIREME_SCRIPTED_WORKER})), "exited with status 2") << "flags are missing";
}

}  // namespace
}  // namespace trireme::worker
