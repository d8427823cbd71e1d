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
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/logging.h"
#include "server/coordinator/group_status.h"
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
