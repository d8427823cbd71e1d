// Collectives among the ranks of a tensor-parallel group. One object per rank; every rank calls the same
// collectives in the same order with the same sizes.
//
// Every call has the deadline that the group was made with; when it passes, or when any rank calls Abort, the
// call returns an error that names the rank that was waited for. After an error the object is of no more use:
// the group is thrown away and started again, never repaired.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "sharding/placement/placement.h"
#include "worker/collective_times.h"

namespace trireme::worker {

// One thread at a time, except Abort.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual sharding::Rank rank() const = 0;

  // data[i] becomes the sum over ranks, added in rank order: equal bits on every rank.
  virtual absl::Status AllReduceSum(std::span<float> data) = 0;

  // `all` becomes the concatenation of every rank's `mine`, in rank order. sizes[r] is the number of bytes of
  // rank r (they may differ, and be 0): sizes[rank] == mine.size(), and their sum is all.size().
  virtual absl::Status AllGather(std::span<const std::byte> mine, std::span<const std::size_t> sizes,
                                 std::span<std::byte> all) = 0;

  // Of the sum over ranks of `data`, keeps the part of this rank: parts are consecutive, of sizes[r] elements.
  virtual absl::Status ReduceScatterSum(std::span<const float> data, std::span<const std::size_t> sizes,
                                        std::span<float> mine) = 0;

  // Rank `root`'s data goes to all.
  virtual absl::Status Broadcast(std::span<std::byte> data, int root) = 0;

  // Block b of `send` goes to rank b; block b of `receive` comes from rank b. Blocks are of equal size.
  virtual absl::Status AllToAll(std::span<const std::byte> send, std::span<std::byte> receive) = 0;

  // Returns once every rank has called it. `timeout` in place of the group's deadline, for ranks that come
  // when their weights are read.
  virtual absl::Status Barrier(std::optional<absl::Duration> timeout = std::nullopt) = 0;

  // Of all collectives so far. Zero where nothing is measured, as in a group of one.
  virtual CollectiveTimes times() const { return {}; }

  // Ends the collectives of all ranks, now and later, with `reason`. From any thread; safe to call twice.
  virtual void Abort(std::string_view reason) = 0;
};

}  // namespace trireme::worker
