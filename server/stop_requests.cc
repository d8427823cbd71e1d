#include "server/stop_requests.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "absl/time/clock.h"
#include "base/check.h"

namespace trireme::server {
namespace {

// What a handler may touch: a descriptor, and write().
std::atomic<int> signal_pipe = -1;
static_assert(std::atomic<int>::is_always_lock_free);

void WriteReason(int descriptor, StopReason reason) {
  const char byte = static_cast<char>(reason);
  // A full pipe means that hundreds wait already: one more tells nothing.
  [[maybe_unused]] const ssize_t written = write(descriptor, &byte, 1);
}

void OnSignal(int) {
  const int saved_errno = errno;
  WriteReason(signal_pipe.load(), StopReason::kSignal);
  errno = saved_errno;
}

void Handle(int signal_number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  CHECK_EQ(sigaction(signal_number, &action, nullptr), 0);
}

}  // namespace

StopRequests::StopRequests() {
  int ends[2];
  CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  read_end_ = ends[0];
  write_end_ = ends[1];
  CHECK_EQ(signal_pipe.exchange(write_end_), -1);
  Handle(SIGTERM, OnSignal);
  Handle(SIGINT, OnSignal);
}

StopRequests::~StopRequests() {
  Handle(SIGTERM, SIG_DFL);
  Handle(SIGINT, SIG_DFL);
  signal_pipe = -1;
  close(read_end_);
  close(write_end_);
}

void StopRequests::Post(StopReason reason) { WriteReason(write_end_, reason); }

std::optional<StopReason> StopRequests::WaitUntil(absl::Time deadline) {
  while (true) {
    char byte = 0;
    if (read(read_end_, &byte, 1) == 1) return static_cast<StopReason>(byte);
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    pollfd readable = {.fd = read_end_, .events = POLLIN, .revents = 0};
    const auto left_ms = absl::ToInt64Milliseconds(std::min(left, absl::Hours(1))) + 1;
    poll(&readable, 1, static_cast<int>(left_ms));  // interrupted or not: look again
  }
}

}  // namespace trireme::server
