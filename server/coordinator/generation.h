// One life of the group: its processes from their start to their end. The supervising thread runs it as straight-line
// code: start, hello, configure, ready, serve; any wait for the next stage ends early when a rank is lost or when the
// server orders something.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/first_cause.h"
#include "server/coordinator/group_watch.h"
#include "server/coordinator/mailbox.h"
#include "server/coordinator/ranks.h"
#include "server/coordinator/roster.h"
#include "server/coordinator/step_channel.h"
#include "server/coordinator/worker_group.h"

namespace trireme::server {

// What a generation works with; all of it outlives the generation.
struct GenerationContext {
  const WorkerGroupOptions& options;
  const std::string& control_address;
  Roster& roster;
  Mailbox& mailbox;
  StepChannel& channel;
  // Told of the ranks whenever something may have changed.
  std::function<void(const std::vector<RankStatus>& ranks, bool is_up)> publish;
};

// One thread, which outlives the processes (see WorkerProcess::Spawn).
class Generation {
 public:
  // `number` grows by one with each.
  Generation(const GenerationContext& context, std::uint64_t number);
  // Ends.
  ~Generation();

  // Starts the processes, brings the group up, opens the channel, watches. Returns when the group is lost, with the
  // cause (the processes may still run: Close the channel, then End), or nullopt on an order other than kRun.
  std::optional<Cause> RunUntilLost();

  // Lets the ranks finish what they have and leave; ends those that do not by `deadline` (of MonotonicNow()) or on
  // kStop. OK if all left with status 0.
  absl::Status Drain(absl::Time deadline);

  // Ends the streams, waits for `grace`, kills what is left, reaps all.
  void End(absl::Duration grace);

 private:
  bool StartAll();
  void ConfigureAll();
  bool OpenChannel();

  // Turns until `condition`; false if a cause or an order came first.
  bool Await(const std::function<bool()>& condition);
  // Waits for something to happen, or a tick, and takes it in.
  void Turn();
  void ForgiveIfHeldUp();
  void Handle(RankEvent event);
  void OnHello(int rank, HelloEvent event);
  void OnMessage(int rank, const worker::v1::ConnectRequest& message);
  void OnHeartbeat(int rank, const worker::v1::Heartbeat& heartbeat);
  void OnReady(int rank, const worker::v1::Ready& ready);
  void OnFailure(int rank, const worker::v1::Failure& failure);
  void LookForDeaths();
  void CheckDeadlines();
  void Publish();

  void AddCause(Cause cause);
  void Send(int rank, const worker::v1::ConnectResponse& message);

  const GenerationContext context_;
  const std::uint64_t number_;
  Ranks ranks_;
  std::optional<GroupWatch> watch_;  // once the processes run
  FirstCause first_cause_;
  bool is_up_ = false;
  bool is_draining_ = false;
  absl::Time last_turn_;
};

}  // namespace trireme::server
