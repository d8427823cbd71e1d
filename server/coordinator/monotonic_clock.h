// The clock of all deadlines in this folder: it neither jumps with the wall clock nor counts the machine's sleep.
#pragma once
#include <poll.h>

#include <vector>

#include "absl/time/time.h"

namespace trireme::server {

// Only differences have a meaning. Not to be compared with absl::Now().
absl::Time MonotonicNow();

// poll(2) until one of them is ready, a signal comes, or `deadline` of this clock has passed.
void PollUntil(std::vector<pollfd> fds, absl::Time deadline);

}  // namespace trireme::server
