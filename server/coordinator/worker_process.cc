#include "server/coordinator/worker_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 forgot it in there
}

#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/logging.h"
#include "server/coordinator/monotonic_clock.h"

namespace trireme::server {
namespace {

// After SIGKILL a process ends at once, unless a device's driver holds it.
constexpr absl::Duration kKillPatience = absl::Seconds(10);

// posix_spawn's two descriptions of the child.
class SpawnSetup {
 public:
  explicit SpawnSetup(int inherited_fd) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    int first_closed = STDERR_FILENO + 1;
    if (inherited_fd >= 0) {
      posix_spawn_file_actions_adddup2(&actions_, inherited_fd, WorkerProcess::kInheritedFd);
      first_closed = WorkerProcess::kInheritedFd + 1;
    }
    posix_spawn_file_actions_addclosefrom_np(&actions_, first_closed);
    SetSignals();
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  // Nothing blocked, nothing ignored, whatever this process does with its own signals; a group of its own.
  void SetSignals() {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment with `changes` over it, as "NAME=value".
std::vector<std::string> Environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) all.emplace_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

}  // namespace

std::string ProcessEnd::Describe() const {
  if (!was_killed) return absl::StrCat("exited with status ", value);
  const char* name = sigabbrev_np(value);
  return name != nullptr ? absl::StrCat("was killed by SIG", name) : absl::StrCat("was killed by signal ", value);
}

absl::StatusOr<WorkerProcess> WorkerProcess::Spawn(const ProcessSpec& spec) {
  std::vector<std::string> arguments = spec.arguments;
  arguments.insert(arguments.begin(), spec.binary.string());
  std::vector<std::string> environment = Environment(spec.environment);
  const SpawnSetup setup(spec.inherited_fd);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, spec.binary.c_str(), setup.actions(), setup.attributes(),
                                Pointers(arguments).data(), Pointers(environment).data());
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", spec.binary.string()));
  const int pidfd = pidfd_open(pid, 0);
  if (pidfd >= 0) return WorkerProcess(pid, pidfd);
  const int pidfd_error = errno;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return absl::ErrnoToStatus(pidfd_error, "pidfd_open");
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : pid_(other.pid_), pidfd_(std::exchange(other.pidfd_, -1)), end_(other.end_) {}

WorkerProcess::~WorkerProcess() {
  if (pidfd_ < 0) return;
  Kill();
  if (!ReapBy(MonotonicNow() + kKillPatience)) LogError("a killed process does not end", {{"pid", pid_}});
  close(pidfd_);
}

std::optional<ProcessEnd> WorkerProcess::TryReap() {
  if (end_) return end_;
  siginfo_t info{};
  const int result = waitid(P_PIDFD, pidfd_, &info, WEXITED | WNOHANG);
  CHECK_EQ(result, 0) << "waitid of pid " << pid_ << ": " << strerror(errno);
  if (info.si_pid == 0) return std::nullopt;
  end_ = ProcessEnd{.was_killed = info.si_code != CLD_EXITED, .value = info.si_status};
  return end_;
}

std::optional<ProcessEnd> WorkerProcess::ReapBy(absl::Time deadline) {
  PollUntil({{.fd = pidfd_, .events = POLLIN, .revents = 0}}, deadline);
  return TryReap();
}

void WorkerProcess::Kill() {
  if (!end_) pidfd_send_signal(pidfd_, SIGKILL, nullptr, 0);
}

}  // namespace trireme::server
