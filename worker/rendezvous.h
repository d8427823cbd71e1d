// Where the ranks of a group on one host meet: the lock-free part of the shared-memory communicator.
//
// Goals: it cannot hang. No lock is held by anyone, so a rank may be killed between any two stores; every wait has a
// deadline and looks at the abort bit; whoever is missing is named. Little is done to wake: however many ranks sleep,
// each of them wakes once a meeting, since tp 9 on two cores spends its time there. Non-goals: reuse after an error
// (the segment is thrown away with the group), hosts that do not share memory.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "sharding/placement/placement.h"
#include "worker/collective_times.h"

namespace trireme::worker {

enum class CollectiveKind : std::uint32_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll, kBarrier };

// What a rank believes that all are doing. Ranks that differ have diverged.
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  std::uint32_t detail = 0;  // root of a broadcast, checksum of the sizes of parts
  std::uint64_t size = 0;    // elements or bytes, as the kind has it
  friend bool operator==(const Collective&, const Collective&) = default;
};

// "all-reduce of 576 floats".
std::string ToString(const Collective& collective);

struct RendezvousOptions {
  absl::Duration timeout = absl::Seconds(30);  // of a collective
  absl::Duration spin = absl::ZeroDuration();  // polls for so long before it sleeps
};

// How long to spin where `world` ranks of `threads_per_rank` threads run on the CPUs this process may use: nothing
// where they outnumber the CPUs, since then a spinning rank keeps the one that it waits for from running.
absl::Duration SpinThatSuits(int world, int threads_per_rank);

// One per rank, over memory that all ranks share. One thread at a time, except Abort.
class Rendezvous {
 public:
  // Bytes of shared memory for a group of `world`, a multiple of 64.
  static std::size_t BytesFor(int world);

  // `memory`: BytesFor(rank.world) bytes, aligned to 64, all zero before the first rank comes.
  Rendezvous(std::byte* memory, sharding::Rank rank, const RendezvousOptions& options);

  sharding::Rank rank() const { return rank_; }

  // Begins a collective, whose deadline is `timeout` (the options' by default) from now.
  void Begin(const Collective& collective, std::optional<absl::Duration> timeout = std::nullopt);

  // Ends it: it is counted, with the time since Begin.
  void End();

  // Meets all ranks: what each wrote before is seen by all after. In one collective ranks meet as often as
  // they like, all equally often. Between two meetings a rank may overwrite only what was not written since
  // the last but one, so buffers of two generations, chosen by `generation`, suffice.
  //
  // DeadlineExceeded names the ranks that did not come and what they did last; Aborted gives Abort's reason;
  // Internal names a rank that is at another collective. Every later call returns the same error.
  absl::Status Meet();

  // 0 or 1: where to write before the next Meet.
  int generation() const { return static_cast<int>(meetings_ & 1); }

  void Abort(std::string_view reason);

  // Waits and lateness are those of collectives in which all have met. A rank comes to a collective when it begins it;
  // the ranks' clocks are one, CLOCK_MONOTONIC of their host.
  CollectiveTimes times() const;

 private:
  struct Shared;
  struct RankLine;

  absl::Status WaitUntilComplete(std::uint32_t target);
  bool SpinUntilComplete(std::uint32_t target) const;
  absl::Status CheckSameCollective() const;
  void NoteArrivals();
  absl::Status MissingRanks() const;
  absl::Status AbortReason() const;

  Shared* const shared_;
  RankLine* const lines_;  // one per rank
  const sharding::Rank rank_;
  const RendezvousOptions options_;
  std::uint32_t meetings_ = 0;     // finished ones; wraps around
  std::uint64_t collectives_ = 0;  // begun
  Collective current_;
  absl::Duration timeout_;
  std::int64_t begun_ns_ = 0;  // CLOCK_MONOTONIC, as is the next
  std::int64_t deadline_ns_ = 0;
  bool has_met_ = false;  // in this collective
  std::uint64_t num_ended_ = 0;
  std::int64_t total_ns_ = 0;  // these three as in CollectiveTimes
  std::int64_t wait_ns_ = 0;
  std::int64_t lateness_ns_ = 0;
  absl::Status failure_;
};

}  // namespace trireme::worker
