// One child process: started, watched by its pidfd, killed, reaped. A pidfd cannot mean another process that has taken
// the number, and it polls together with everything else.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trireme::server {

struct ProcessSpec {
  std::filesystem::path binary;
  std::vector<std::string> arguments = {};              // without the program's name
  std::map<std::string, std::string> environment = {};  // over that of this process
  int inherited_fd = -1;                                // becomes kInheritedFd in the child; every other one is closed
};

// How a process ended.
struct ProcessEnd {
  bool was_killed = false;  // by a signal
  int value = 0;            // the signal's number, or the exit status

  bool is_success() const { return !was_killed && value == 0; }
  std::string Describe() const;  // "was killed by SIGKILL", "exited with status 3"
};

// Move-only. One thread at a time.
class WorkerProcess {
 public:
  static constexpr int kInheritedFd = 3;

  // Starts the program in a process group of its own, so that what a terminal or `timeout` sends to the server's group
  // (Ctrl-C above all) does not reach it: the server drains first. Signals are at their defaults, stdin is /dev/null.
  //
  // The child may ask for a signal at its parent's death (PR_SET_PDEATHSIG); Linux sends it when the *thread* that
  // called Spawn ends. So this thread must outlive the child.
  //
  // REQUIRES: SIGCHLD is not ignored, else the end could not be told.
  // NOT_FOUND or PERMISSION_DENIED, with the path, where the binary cannot be run.
  static absl::StatusOr<WorkerProcess> Spawn(const ProcessSpec& spec);

  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  // Kills it if it still runs, and waits ten seconds at most.
  ~WorkerProcess();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_; }  // readable once the process has ended

  // Not yet found ended by TryReap or ReapBy.
  bool is_running() const { return !end_.has_value(); }

  // How it ended, or nullopt if it runs. Does not wait. The same answer ever after.
  std::optional<ProcessEnd> TryReap();
  // The same, but waits for the end until `deadline` (of MonotonicNow()).
  std::optional<ProcessEnd> ReapBy(absl::Time deadline);

  // SIGKILL; works on stopped processes too. Nothing if it has been reaped.
  void Kill();

 private:
  WorkerProcess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}

  pid_t pid_;
  int pidfd_;
  std::optional<ProcessEnd> end_;
};

}  // namespace trireme::server
