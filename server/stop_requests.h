// Reasons to end the program: signals from outside, or a worker group that was given up.
#pragma once
#include <optional>

#include "absl/time/time.h"

namespace trireme::server {

enum class StopReason { kSignal, kGroupGivenUp };

// SIGTERM and SIGINT are handled from construction to destruction. One at a time in a process; construct before other
// threads start.
class StopRequests {
 public:
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  // From any thread.
  void Post(StopReason reason);

  // The next reason, in order; nothing once `deadline` has passed. Each is told once.
  std::optional<StopReason> WaitUntil(absl::Time deadline);

 private:
  int read_end_ = -1;
  int write_end_ = -1;
};

}  // namespace trireme::server
