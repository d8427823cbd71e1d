// What is known of the worker group, for those who tell of it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/first_cause.h"

namespace trireme::server {

enum class RankState { kStarting, kLoading, kReady, kLost, kStopped };

// What a rank's steps have cost it: sums since it was ready.
struct RankTimes {
  absl::Duration steps;  // forward passes and sampling, collectives included
  std::uint64_t num_collectives = 0;
  absl::Duration collectives;       // in them, waiting included
  absl::Duration collective_waits;  // of that, until the last rank had come to them
  absl::Duration lateness;          // by which it came to them later than the first rank
};

// What is known of a rank, for GetServerInfo and metrics.
struct RankStatus {
  int rank = 0;
  std::int64_t pid = 0;  // 0 while there is no process
  std::string host;      // host and device are empty until the worker has said hello
  std::string device;
  RankState state = RankState::kStarting;
  std::uint64_t loaded_bytes = 0;
  std::uint64_t total_bytes = 0;   // to load; 0 until known
  std::uint64_t weight_bytes = 0;  // these three are 0 until ready
  std::uint64_t bytes_read = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t last_step_finished = 0;
  RankTimes times = {};
  std::optional<absl::Time> last_heartbeat = {};  // by MonotonicNow(); nothing before the first
};

// How a group was lost.
struct GroupLoss {
  Cause cause;      // the first
  absl::Time time;  // when that was certain
};

struct GroupStatus {
  std::uint64_t generation = 0;  // 1 is the first start
  std::uint64_t num_restarts = 0;
  bool is_up = false;
  bool is_given_up = false;
  std::optional<GroupLoss> last_loss;  // nothing if it never was lost
  std::vector<RankStatus> ranks;       // in order
};

}  // namespace trireme::server
