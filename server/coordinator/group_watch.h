// The deadlines of one group's life: who must have said or done what by when. Pure: time is an argument.
//
// Loading and steps are watched for the group as a whole, since a rank that waits for a peer in a collective makes no
// progress either: as long as any rank loads, none is stalled; when none does, the one furthest behind is named.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace trireme::server {

// How long what may take. Each is a bound on silence, not on work that goes on.
struct WorkerTimeouts {
  absl::Duration heartbeat_interval = absl::Milliseconds(100);
  absl::Duration frozen_after = absl::Seconds(5);         // without a heartbeat
  absl::Duration hello = absl::Seconds(10);               // from the start of the processes to the last Hello
  absl::Duration load_stall = absl::Seconds(60);          // loading without a byte more on any rank
  absl::Duration step_deadline = absl::Seconds(60);       // from a step's turn to its end on every rank
  absl::Duration collective_timeout = absl::Seconds(45);  // below step_deadline: the communicator knows the late rank
  absl::Duration kill_grace = absl::Milliseconds(500);    // to leave on their own when the group is lost
};

// What a rank's heartbeats have said last.
struct RankProgress {
  std::uint64_t loaded_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t last_step_begun = 0;
  std::uint64_t last_step_finished = 0;
};

// A rank that has missed a deadline.
struct LateRank {
  int rank = 0;
  std::string what;  // for people, with the rank's name: "rank 1 (pid 123) sent no heartbeat for 5s; ..."
};

// Not thread-safe. All `now` are of one clock and never go back.
class GroupWatch {
 public:
  // `names[r]` is what errors call rank r: "rank 1 (pid 123)".
  GroupWatch(const WorkerTimeouts& timeouts, std::vector<std::string> names, absl::Time started);

  void OnHello(int rank);
  // Every rank has been told what to load: heartbeats are due.
  void OnConfigured(absl::Time now);
  void OnHeartbeat(int rank, const RankProgress& progress, absl::Time now);
  void OnReady(int rank, absl::Time now);
  // The number of the newest step sent. May be told late, or twice.
  void OnStepSent(std::uint64_t number, absl::Time now);

  // The watcher itself was held up for so long (stopped, suspended): nothing that it did not see counts.
  void Forgive(absl::Duration held_up);

  // The rank that is late, if one is.
  std::optional<LateRank> Check(absl::Time now) const;

 private:
  struct RankState {
    std::string name;
    bool has_said_hello = false;
    bool is_ready = false;
    absl::Time last_heartbeat;
    RankProgress progress;
  };

  std::optional<LateRank> CheckHello(absl::Time now) const;
  std::optional<LateRank> CheckHeartbeats(absl::Time now) const;
  std::optional<LateRank> CheckLoading(absl::Time now) const;
  std::optional<LateRank> CheckSteps(absl::Time now) const;
  int IndexOf(const RankState& rank) const { return static_cast<int>(&rank - ranks_.data()); }
  std::uint64_t FinishedByAll() const;

  WorkerTimeouts timeouts_;
  std::vector<RankState> ranks_;
  absl::Time started_;
  bool is_configured_ = false;
  absl::Time last_load_progress_;
  std::uint64_t last_step_sent_ = 0;
  absl::Time last_step_progress_;  // when the oldest unfinished step's turn came
};

}  // namespace trireme::server
