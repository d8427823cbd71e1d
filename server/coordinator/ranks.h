// The ranks of one generation: their processes, their control streams, and what they have said of themselves. It knows
// nothing of causes and deadlines; the generation judges.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/coordinator/control_stream.h"
#include "server/coordinator/group_status.h"
#include "server/coordinator/group_watch.h"
#include "server/coordinator/mailbox.h"
#include "server/coordinator/roster.h"
#include "server/coordinator/worker_group.h"
#include "server/coordinator/worker_process.h"

namespace trireme::server {

// How a rank's process ended.
struct RankEnd {
  int rank = 0;
  ProcessEnd end;
};

// One thread, which outlives the processes (see WorkerProcess::Spawn). Ranks are numbered from 0.
class Ranks {
 public:
  // No processes yet. REQUIRES: num_ranks > 0.
  explicit Ranks(int num_ranks);

  // Starts a process for each rank and lets the roster expect them. On an error those before it run; End ends them.
  absl::Status Start(const WorkerGroupOptions& options, const std::string& control_address, std::uint64_t generation,
                     Roster& roster);

  // What a rank has said or been told.
  void OnHello(int rank, HelloEvent event);
  void OnConfigured(int rank);
  void OnHeartbeat(int rank, const RankProgress& progress, const RankTimes& times);
  void OnReady(int rank, const worker::v1::Ready& ready);

  // UNAVAILABLE, with the rank's name, if its stream takes no more. REQUIRES: the rank has said hello.
  absl::Status Send(int rank, const grpc::ByteBuffer& message);

  // The processes that have ended since it was asked last. While draining, those that left with status 0 are stopped;
  // all others are lost. REQUIRES: Start was OK.
  std::vector<RankEnd> TakeEnded(bool is_draining);

  // Ends the streams, waits for `grace`, kills what is left, reaps all.
  void End(absl::Duration grace);

  int size() const { return static_cast<int>(ranks_.size()); }
  std::string NameOf(int rank) const;      // "rank 1 (pid 123)"
  std::vector<std::string> Names() const;  // in order
  std::vector<RankStatus> Statuses() const;
  std::vector<std::shared_ptr<ControlStream>> Streams() const;

  bool AllHaveSaidHello() const;
  bool AllAreReady() const;

  // Processes that have not been found ended.
  std::vector<int> Running() const;
  std::vector<int> PidfdsOfRunning() const;

  // What every rank has room for, for each KV group; an error where they count groups differently. REQUIRES: AllAreReady.
  absl::StatusOr<std::vector<std::uint32_t>> LeastKvBlocks() const;

 private:
  struct Rank {
    std::optional<WorkerProcess> process;   // empty if it could not be started
    std::shared_ptr<ControlStream> stream;  // empty before hello
    std::optional<worker::v1::Ready> ready;
    RankStatus status;
  };

  std::vector<Rank> ranks_;
};

}  // namespace trireme::server
