// The worker processes of one tensor-parallel group on this host: started, watched, fed with steps, and started again
// when one is lost.
//
// Goals: a rank that dies is noticed within a second, one that freezes within ten; the message names rank and first
// cause; no process is left, whoever is killed. Not goals: mending a group in place (the whole group goes and comes
// again), workers on other hosts (they will dial the same service over TCP).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/logging.h"
#include "server/coordinator/first_cause.h"
#include "server/coordinator/group_watch.h"
#include "server/coordinator/restart_policy.h"
#include "server/engine/scheduler.h"
#include "server/engine/step_link.h"
#include "sharding/checkpoint/dtype.h"

namespace trireme::server {

struct WorkerGroupOptions {
  std::filesystem::path worker_binary;            // trireme-worker
  int tp_degree = 1;                              // number of processes, > 0
  std::filesystem::path model_path;               // checkpoint folder or .gguf file, already validated for tp_degree
  sharding::DType dtype = sharding::DType::kF32;  // or kBF16
  std::map<std::string, std::string> plan_rules;  // the user's, over the family's
  std::uint32_t max_model_len = 0;                // tokens
  SchedulerLimits limits;
  std::uint64_t kv_cache_bytes = 0;         // on each rank
  int num_threads = 0;                      // of each rank; 0 for DefaultThreadsPerRank(tp_degree)
  LogFormat log_format = LogFormat::kText;  // of the workers
  LogLevel log_level = LogLevel::kInfo;
  WorkerTimeouts timeouts;
  RestartLimits restarts;

  // Called once, after OnGroupDown(cause, for_good), on the group's thread: the server ends with a status ≠ 0. Must
  // return at once, and must not call Drain or Stop itself.
  std::function<void(const absl::Status& cause)> on_given_up = [](const absl::Status&) {};
};

// Usable CPUs (affinity mask and cgroup quota) divided by the ranks; at least 1.
int DefaultThreadsPerRank(int tp_degree);

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

// Thread-safe.
class WorkerGroup : public StepLink {
 public:
  // REQUIRES: tp_degree > 0, limits > 0, collective_timeout < step_deadline.
  explicit WorkerGroup(WorkerGroupOptions options);
  // Stops.
  ~WorkerGroup() override;

  // Opens the control socket and begins to start the workers; `listener` (which outlives this) is told how it goes.
  // A start that no restart can heal (the model, the limits, another build, no worker binary) is
  // OnGroupDown(cause, for_good) at once. Errors here: the socket could not be made. Call once, before other threads
  // fork: gRPC runs from here on.
  absl::Status Start(StepListener* listener);

  void Send(const StepCommand& command) override;
  void ExcuseLosses(std::span<const std::uint64_t> generations) override;

  // Lets the workers finish the steps they have and leave with status 0; kills what is left at `deadline`. OK if all
  // left by themselves; DEADLINE_EXCEEDED or the cause otherwise. No process is left in either case, and the listener
  // is not called after it. Results of steps in flight still come in; OnGroupDown does not.
  absl::Status Drain(absl::Time deadline);

  // Ends all processes now. The listener is not called after it. Safe to call twice, and after Drain.
  void Stop();

  GroupStatus status() const;

 private:
  class Supervisor;

  const WorkerGroupOptions options_;
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace trireme::server
