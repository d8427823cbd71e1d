// The communicator among real processes that inherit a memfd.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/shared_memory_communicator.h"

namespace trireme::worker {
namespace {

using testing::HasSubstr;

constexpr SharedMemoryOptions kOptions = {.chunk_bytes = 4096, .timeout = absl::Milliseconds(1500)};

// A memfd that children inherit.
class MemFd {
 public:
  MemFd() : fd_(memfd_create("trireme_test", 0)) { CHECK_GE(fd_, 0); }
  ~MemFd() { close(fd_); }
  int get() const { return fd_; }

 private:
  const int fd_;
};

// A child process that runs `body` and writes the status it returns into a pipe.
class RankProcess {
 public:
  RankProcess(int fd, sharding::Rank rank, const std::function<absl::Status(Communicator&)>& body) {
    CHECK_EQ(pipe(pipe_), 0);
    pid_ = fork();
    CHECK_GE(pid_, 0);
    if (pid_ == 0) RunChild(fd, rank, body);
    close(pipe_[1]);
  }

  pid_t pid() const { return pid_; }

  // "" if all went well or the process was killed, else the error. Waits for its end.
  std::string Join() {
    std::string text;
    char buffer[512];
    for (ssize_t n; (n = read(pipe_[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, n);
    close(pipe_[0]);
    waitpid(pid_, nullptr, 0);
    return text;
  }

 private:
  [[noreturn]] void RunChild(int fd, sharding::Rank rank, const std::function<absl::Status(Communicator&)>& body) {
    close(pipe_[0]);
    auto communicator = SharedMemoryCommunicator::Create(fd, rank, kOptions);
    const absl::Status status = communicator.ok() ? body(**communicator) : communicator.status();
    const std::string text = status.ok() ? "" : status.ToString();
    if (write(pipe_[1], text.data(), text.size()) < 0) _exit(1);
    _exit(0);
  }

  pid_t pid_ = -1;
  int pipe_[2] = {-1, -1};
};

std::vector<RankProcess> Start(int fd, int world, const std::function<absl::Status(Communicator&)>& body) {
  std::vector<RankProcess> processes;
  for (int r = 0; r < world; ++r) processes.emplace_back(fd, sharding::Rank{r, world}, body);
  return processes;
}

absl::Status SumForEver(Communicator& communicator) {
  for (;;) {
    std::vector<float> data(3000, 1.0f);
    if (absl::Status status = communicator.AllReduceSum(data); !status.ok()) return status;
    if (data.back() != static_cast<float>(communicator.rank().world)) return absl::InternalError("wrong sum");
  }
}

TEST(CommunicatorProcesses, AddUpAcrossProcesses) {
  MemFd memory;
  auto processes = Start(memory.get(), 3, [](Communicator& communicator) {
    std::vector<float> data(5000, static_cast<float>(communicator.rank().index + 1));
    absl::Status status = communicator.AllReduceSum(data);
    if (status.ok() && data != std::vector<float>(5000, 6.0f)) return absl::InternalError("wrong sum");
    return status;
  });
  for (RankProcess& process : processes) EXPECT_EQ(process.Join(), "");
}

TEST(CommunicatorProcesses, NameARankThatIsKilledInTheMiddle) {
  MemFd memory;
  auto processes = Start(memory.get(), 3, SumForEver);
  usleep(200'000);
  const absl::Time killed = absl::Now();
  kill(processes[1].pid(), SIGKILL);
  for (int r : {0, 2}) {
    EXPECT_THAT(processes[r].Join(), testing::ContainsRegex("DEADLINE_EXCEEDED: rank 1 .*did not arrive within 1.5s"));
  }
  EXPECT_LT(absl::Now() - killed, absl::Seconds(10));
  processes[1].Join();
}

TEST(CommunicatorProcesses, NameARankThatIsFrozen) {
  MemFd memory;
  auto processes = Start(memory.get(), 2, SumForEver);
  usleep(200'000);
  kill(processes[0].pid(), SIGSTOP);
  EXPECT_THAT(processes[1].Join(), HasSubstr("rank 0"));
  kill(processes[0].pid(), SIGKILL);
  processes[0].Join();
}

TEST(CommunicatorProcesses, AbortReachesOtherProcesses) {
  MemFd memory;
  auto processes = Start(memory.get(), 2, [](Communicator& communicator) {
    if (communicator.rank().index == 0) return communicator.Barrier(absl::Seconds(60));
    usleep(100'000);
    communicator.Abort("rank 1 could not read its weights");
    return absl::OkStatus();
  });
  EXPECT_THAT(processes[0].Join(), HasSubstr("rank 1 could not read its weights"));
  EXPECT_EQ(processes[1].Join(), "");
}

TEST(SharedSegment, RefusesTheSizeOfAnotherGroup) {
  MemFd memory;
  ASSERT_TRUE(SharedMemoryCommunicator::Create(memory.get(), {0, 2}, kOptions).ok());
  const auto other = SharedMemoryCommunicator::Create(memory.get(), {1, 3}, kOptions);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("ranks must agree on their number"));
}

TEST(SharedSegment, SaysWhatTheSystemSaid) {
  const auto communicator = SharedMemoryCommunicator::Create(-1, {0, 2}, kOptions);
  EXPECT_THAT(std::string(communicator.status().message()), HasSubstr("fstat of the shared memory (descriptor -1)"));
}

TEST(SharedMemoryOptions, RefuseAChunkThatCannotHoldAllRanks) {
  MemFd memory;
  const auto communicator = SharedMemoryCommunicator::Create(memory.get(), {0, 9}, {.chunk_bytes = 512});
  EXPECT_EQ(communicator.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace trireme::worker
