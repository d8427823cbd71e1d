// Collectives among processes of one host, over memory that they share.
//
// Data larger than a slot goes in chunks. Sums are added in rank order whatever the size, so all ranks get
// equal bits, the same in every run. Small sums take one meeting, after which each rank adds up everything
// for itself; large ones take two: each rank adds up its 1/N, then all gather.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/communicator.h"
#include "worker/rendezvous.h"
#include "worker/shared_segment.h"

namespace trireme::worker {

struct SharedMemoryOptions {
  std::size_t chunk_bytes = std::size_t{1}
                            << 20;  // each rank has two slots of it; a multiple of 64, at least one for each rank
  absl::Duration timeout = absl::Seconds(30);  // of a collective
  absl::Duration spin = absl::ZeroDuration();  // see SpinThatSuits
};

class SharedMemoryCommunicator : public Communicator {
 public:
  // `fd` is a memfd that all ranks have (by inheritance, or by SCM_RIGHTS); whoever comes first gives it its
  // size. All ranks pass the same options. The descriptor may be closed afterwards. InvalidArgument: bad
  // options, or a descriptor whose size is that of another group; else what the system said.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(int fd, sharding::Rank rank,
                                                              const SharedMemoryOptions& options);

  // Over `memory` of BytesFor(...), aligned to 64, all zero at first: ranks that are threads of one process.
  // It outlives the communicator.
  static std::unique_ptr<Communicator> OverMemory(std::byte* memory, sharding::Rank rank,
                                                  const SharedMemoryOptions& options);
  static std::size_t BytesFor(int world, const SharedMemoryOptions& options);

  sharding::Rank rank() const override { return rendezvous_.rank(); }
  absl::Status AllReduceSum(std::span<float> data) override;
  absl::Status AllGather(std::span<const std::byte> mine, std::span<const std::size_t> sizes,
                         std::span<std::byte> all) override;
  absl::Status ReduceScatterSum(std::span<const float> data, std::span<const std::size_t> sizes,
                                std::span<float> mine) override;
  absl::Status Broadcast(std::span<std::byte> data, int root) override;
  absl::Status AllToAll(std::span<const std::byte> send, std::span<std::byte> receive) override;
  absl::Status Barrier(std::optional<absl::Duration> timeout) override;
  CollectiveTimes times() const override { return rendezvous_.times(); }
  void Abort(std::string_view reason) override { rendezvous_.Abort(reason); }

 private:
  SharedMemoryCommunicator(std::byte* memory, sharding::Rank rank, const SharedMemoryOptions& options);

  // Slots to write now and slots that were written before the last meeting.
  std::byte* SlotToWrite() const { return Slot(rendezvous_.generation(), rank().index); }
  const std::byte* SlotToRead(int of_rank) const { return Slot(1 - rendezvous_.generation(), of_rank); }
  std::byte* Slot(int generation, int of_rank) const;
  // out[i] = the sum over ranks of the floats [begin, begin + out.size()) of their slots to read.
  void SumSlots(std::size_t begin, std::span<float> out) const;

  absl::Status AllReduceSmall(std::span<float> chunk);
  absl::Status AllReduceLarge(std::span<float> chunk);
  int world() const { return rank().world; }

  std::unique_ptr<SharedSegment> owned_;  // null if the memory is the caller's
  Rendezvous rendezvous_;
  std::byte* const slots_;
  const std::size_t chunk_bytes_;
};

}  // namespace trireme::worker
