#include "server/coordinator/worker_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "server/coordinator/monotonic_clock.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(20);

ProcessSpec Shell(const std::string& script) { return {.binary = "/bin/sh", .arguments = {"-c", script}}; }

std::string EndOf(const ProcessSpec& spec) {
  absl::StatusOr<WorkerProcess> process = WorkerProcess::Spawn(spec);
  if (!process.ok()) return process.status().ToString();
  const std::optional<ProcessEnd> end = process->ReapBy(MonotonicNow() + kPatience);
  return end ? end->Describe() : "still runs";
}

TEST(WorkerProcess, TellsHowItEnded) {
  EXPECT_EQ(EndOf(Shell("exit 0")), "exited with status 0");
  EXPECT_EQ(EndOf(Shell("exit 3")), "exited with status 3");
  EXPECT_EQ(EndOf(Shell("kill -SEGV $$")), "was killed by SIGSEGV");
}

TEST(WorkerProcess, IsRunningUntilItIsFoundEnded) {
  absl::StatusOr<WorkerProcess> process = WorkerProcess::Spawn(Shell("exec sleep 100"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->TryReap(), std::nullopt);
  EXPECT_TRUE(process->is_running());
  process->Kill();
  ASSERT_TRUE(process->ReapBy(MonotonicNow() + kPatience).has_value());
  EXPECT_FALSE(process->is_running());
  EXPECT_EQ(process->TryReap()->Describe(), "was killed by SIGKILL") << "the same answer ever after";
  EXPECT_EQ(kill(process->pid(), 0), -1) << "reaped";
}

TEST(WorkerProcess, KillsEvenAStoppedProcessWhenItIsDestroyed) {
  pid_t pid = 0;
  {
    absl::StatusOr<WorkerProcess> process = WorkerProcess::Spawn(Shell("exec sleep 100"));
    ASSERT_TRUE(process.ok()) << process.status();
    pid = process->pid();
    kill(pid, SIGSTOP);
    const WorkerProcess moved = *std::move(process);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(WorkerProcess, NamesABinaryThatCannotRun) {
  EXPECT_THAT(EndOf({.binary = "/nowhere/trireme-worker"}),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("/nowhere/trireme-worker")));
  EXPECT_THAT(EndOf({.binary = "/etc/passwd"}), HasSubstr("PERMISSION_DENIED"));
}

TEST(WorkerProcess, AddsToTheEnvironmentAndReplacesInIt) {
  setenv("TRIREME_TEST_OLD", "old", 1);
  setenv("TRIREME_TEST_KEPT", "kept", 1);
  ProcessSpec spec = Shell("test \"$TRIREME_TEST_OLD $TRIREME_TEST_NEW $TRIREME_TEST_KEPT\" = 'changed new kept'");
  spec.environment = {{"TRIREME_TEST_OLD", "changed"}, {"TRIREME_TEST_NEW", "new"}};
  EXPECT_EQ(EndOf(spec), "exited with status 0");
}

TEST(WorkerProcess, InheritsOneDescriptorAndNoOther) {
  const int memory = memfd_create("test", MFD_CLOEXEC);
  const int other = fcntl(memory, F_DUPFD, 7);  // without CLOEXEC
  ASSERT_LE(other, 9);
  ASSERT_EQ(ftruncate(memory, 12345), 0);
  ProcessSpec spec = Shell(
      "test $(stat -L -c %s /dev/fd/3) = 12345 || exit 1; for fd in 4 5 6 7 8 9; do test ! -e /proc/$$/fd/$fd || exit "
      "$fd; done");
  spec.inherited_fd = memory;
  EXPECT_EQ(EndOf(spec), "exited with status 0");
  close(other);
  close(memory);
}

TEST(WorkerProcess, HasAProcessGroupOfItsOwnAndSignalsAtTheirDefaults) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  EXPECT_EQ(EndOf(Shell("test $(ps -o pgid= -p $$) = $$ && kill -TERM $$; exit 9")), "was killed by SIGTERM");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace trireme::server
