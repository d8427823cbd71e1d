#include "server/coordinator/monotonic_clock.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>

#include "base/check.h"

namespace trireme::server {
namespace {

// Rounded up, so that the deadline has passed when poll returns.
int PollTimeoutMs(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return -1;
  const std::int64_t ms = absl::ToInt64Milliseconds(absl::Ceil(deadline - MonotonicNow(), absl::Milliseconds(1)));
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, std::numeric_limits<int>::max()));
}

}  // namespace

absl::Time MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

void PollUntil(std::vector<pollfd> fds, absl::Time deadline) {
  const int ready = poll(fds.data(), fds.size(), PollTimeoutMs(deadline));
  CHECK(ready >= 0 || errno == EINTR) << std::strerror(errno);
}

}  // namespace trireme::server
