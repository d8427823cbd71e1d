// Whoever kills the server: its workers are gone, too.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "server/coordinator/monotonic_clock.h"
#include "server/coordinator/worker_process.h"
#include "tests/server/coordinator/children.h"
#include "tests/support/sanitizers.h"

namespace trireme::server {
namespace {

using test_support::kSlowdown;
using ::testing::Contains;
using ::testing::IsEmpty;

// A group_server in a process of its own.
class ServerDeathTest : public testing::Test {
 protected:
  ServerDeathTest() {
    AdoptOrphans();
    std::filesystem::create_directories(runtime_);
  }
  ~ServerDeathTest() override { std::filesystem::remove_all(runtime_); }

  // Returns the workers' pids.
  std::vector<pid_t> Start(const std::string& script) {
    std::array<int, 2> pipe_ends;
    CHECK_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
    absl::StatusOr<WorkerProcess> server =
        WorkerProcess::Spawn({.binary = TRIREME_GROUP_SERVER,
                              .arguments = {TRIREME_SCRIPTED_WORKER, "3"},
                              .environment = {{"TRIREME_TEST_SCRIPT", script}, {"XDG_RUNTIME_DIR", runtime_.string()}},
                              .inherited_fd = pipe_ends[1]});
    close(pipe_ends[1]);
    CHECK_OK(server.status());
    server_.emplace(*std::move(server));
    std::array<char, 256> line{};
    CHECK_GT(read(pipe_ends[0], line.data(), line.size() - 1), 0);
    close(pipe_ends[0]);
    std::istringstream words(line.data());
    std::vector<pid_t> pids;
    for (pid_t pid = 0; words >> pid;) pids.push_back(pid);
    CHECK_EQ(pids.size(), 3u);
    for (const pid_t pid : pids) CHECK_EQ(kill(pid, 0), 0) << pid;
    return pids;
  }

  void KillServerAndExpectNoWorker(const std::vector<pid_t>& workers) {
    server_->Kill();
    ASSERT_TRUE(server_->ReapBy(MonotonicNow() + absl::Seconds(1) * kSlowdown).has_value());
    EXPECT_THAT(ReapAll(absl::Seconds(1) * kSlowdown), IsEmpty());
    for (const pid_t pid : workers) EXPECT_EQ(kill(pid, 0), -1) << pid;
  }

  // Of the control sockets, sorted.
  std::vector<std::filesystem::path> Folders() const {
    std::vector<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::directory_iterator(runtime_)) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    return folders;
  }

  const std::filesystem::path runtime_ = std::filesystem::path(testing::TempDir()) / absl::StrCat("death", getpid());
  std::optional<WorkerProcess> server_;
};

TEST_F(ServerDeathTest, NoWorkerOutlivesItWhileServing) { KillServerAndExpectNoWorker(Start("")); }

TEST_F(ServerDeathTest, NoWorkerOutlivesItWhileLoading) { KillServerAndExpectNoWorker(Start("at=load do=hang")); }

TEST_F(ServerDeathTest, AFrozenWorkerDoesNotOutliveIt) {
  const std::vector<pid_t> workers = Start("");
  kill(workers[1], SIGSTOP);
  KillServerAndExpectNoWorker(workers);
}

// A server that is killed cannot remove the folder of its control socket.
TEST_F(ServerDeathTest, TheNextServerRemovesItsFolderAndNotThatOfOneThatRuns) {
  KillServerAndExpectNoWorker(Start(""));
  const std::vector<std::filesystem::path> left = Folders();
  ASSERT_EQ(left.size(), 1u);
  Start("");
  const std::vector<std::filesystem::path> running = Folders();
  ASSERT_EQ(running.size(), 1u);
  EXPECT_NE(running, left);
  const std::optional<WorkerProcess> other = std::exchange(server_, std::nullopt);
  Start("");
  EXPECT_EQ(Folders().size(), 2u);
  EXPECT_THAT(Folders(), Contains(running[0]));
}

}  // namespace
}  // namespace trireme::server
