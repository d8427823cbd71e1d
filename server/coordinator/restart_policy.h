// Whether and when a lost group is started again.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "absl/time/time.h"

namespace trireme::server {

// How often a lost group is started again. The wait doubles with each restart within the window.
struct RestartLimits {
  int max_restarts = 5;  // within `window`, those that were excused aside; one more loss is for good
  absl::Duration window = absl::Minutes(10);
  absl::Duration first_backoff = absl::Milliseconds(500);
  absl::Duration max_backoff = absl::Seconds(30);
};

// Not thread-safe.
class RestartPolicy {
 public:
  explicit RestartPolicy(RestartLimits limits) : limits_(limits) {}

  // The group of this generation was lost at `now` (of any clock that never goes back): how long to wait before the
  // next start, or nullopt if it has been started too often.
  std::optional<absl::Duration> OnLoss(std::uint64_t generation, absl::Time now);

  // The restarts after the losses of these generations do not count any more.
  void Excuse(std::span<const std::uint64_t> generations);

 private:
  struct Restart {
    std::uint64_t lost_generation = 0;
    absl::Time time;
  };

  RestartLimits limits_;
  std::deque<Restart> restarts_;  // those within the window, oldest first
};

}  // namespace trireme::server
