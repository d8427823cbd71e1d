#include "worker/shared_memory_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

// Up to here a meeting costs more than to add up everything on every rank.
constexpr std::size_t kSmallSumBytes = 128 << 10;  // of all ranks together

// The part of [0, total) that belongs to rank `index` of `world`: equal parts, in whole cache lines.
sharding::Interval PartOf(std::size_t total, int index, int world) {
  constexpr std::size_t kFloatsPerLine = 16;
  const std::size_t lines = (total + kFloatsPerLine - 1) / kFloatsPerLine;
  const std::size_t step = (lines + world - 1) / world * kFloatsPerLine;
  return {static_cast<std::int64_t>(std::min(index * step, total)),
          static_cast<std::int64_t>(std::min((index + 1) * step, total))};
}

// FNV-1a.
std::uint32_t Checksum(std::span<const std::size_t> sizes) {
  std::uint32_t hash = 2166136261u;
  for (std::size_t size : sizes) {
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ ((size >> (8 * byte)) & 0xff)) * 16777619u;
  }
  return hash;
}

std::size_t Sum(std::span<const std::size_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

void Copy(std::byte* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);  // memcpy forbids null even for nothing
}

// How often a chunk is exchanged for `largest` units; at least once, so that every collective is a meeting.
std::size_t NumRounds(std::size_t largest, std::size_t per_round) {
  return std::max<std::size_t>(1, (largest + per_round - 1) / per_round);
}

// Elements [begin, begin + size) of `data`, as far as there are any.
template <typename T>
std::span<T> Chunk(std::span<T> data, std::size_t begin, std::size_t size) {
  if (begin >= data.size()) return {};
  return data.subspan(begin, std::min(size, data.size() - begin));
}

// A collective, from its beginning to its end.
class Scope {
 public:
  Scope(Rendezvous& rendezvous, const Collective& collective, std::optional<absl::Duration> timeout = std::nullopt)
      : rendezvous_(rendezvous) {
    rendezvous_.Begin(collective, timeout);
  }
  ~Scope() { rendezvous_.End(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Rendezvous& rendezvous_;
};

bool HoldsAllRanks(std::size_t chunk_bytes, int world) {
  return chunk_bytes % 64 == 0 && chunk_bytes >= 64 * static_cast<std::size_t>(world);
}

}  // namespace

std::size_t SharedMemoryCommunicator::BytesFor(int world, const SharedMemoryOptions& options) {
  return Rendezvous::BytesFor(world) + 2 * static_cast<std::size_t>(world) * options.chunk_bytes;
}

absl::StatusOr<std::unique_ptr<Communicator>> SharedMemoryCommunicator::Create(int fd, sharding::Rank rank,
                                                                               const SharedMemoryOptions& options) {
  if (!HoldsAllRanks(options.chunk_bytes, rank.world)) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", options.chunk_bytes, " bytes for ", rank.world,
                                                   " ranks; it must be a multiple of 64, and 64 for each rank"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SharedSegment> segment, SharedSegment::Map(fd, BytesFor(rank.world, options)));
  auto communicator = absl::WrapUnique(new SharedMemoryCommunicator(segment->data(), rank, options));
  communicator->owned_ = std::move(segment);
  return communicator;
}

std::unique_ptr<Communicator> SharedMemoryCommunicator::OverMemory(std::byte* memory, sharding::Rank rank,
                                                                   const SharedMemoryOptions& options) {
  return absl::WrapUnique(new SharedMemoryCommunicator(memory, rank, options));
}

SharedMemoryCommunicator::SharedMemoryCommunicator(std::byte* memory, sharding::Rank rank,
                                                   const SharedMemoryOptions& options)
    : rendezvous_(memory, rank, {.timeout = options.timeout, .spin = options.spin}),
      slots_(memory + Rendezvous::BytesFor(rank.world)),
      chunk_bytes_(options.chunk_bytes) {
  CHECK(HoldsAllRanks(chunk_bytes_, rank.world)) << chunk_bytes_ << " bytes";
}

std::byte* SharedMemoryCommunicator::Slot(int generation, int of_rank) const {
  return slots_ + (static_cast<std::size_t>(generation) * world() + of_rank) * chunk_bytes_;
}

void SharedMemoryCommunicator::SumSlots(std::size_t begin, std::span<float> out) const {
  constexpr std::size_t kBlock = 64;  // sums that stay in registers while the ranks are added, one after another
  for (std::size_t i = 0; i < out.size(); i += kBlock) {
    float sums[kBlock] = {};
    const std::size_t size = std::min(kBlock, out.size() - i);
    std::memcpy(sums, reinterpret_cast<const float*>(SlotToRead(0)) + begin + i, size * sizeof(float));
    for (int r = 1; r < world(); ++r) {
      const float* from = reinterpret_cast<const float*>(SlotToRead(r)) + begin + i;
      for (std::size_t j = 0; j < size; ++j) sums[j] += from[j];
    }
    std::memcpy(out.data() + i, sums, size * sizeof(float));
  }
}

absl::Status SharedMemoryCommunicator::AllReduceSum(std::span<float> data) {
  const Scope scope(rendezvous_, {.kind = CollectiveKind::kAllReduce, .size = data.size()});
  const std::size_t per_round = chunk_bytes_ / sizeof(float);
  for (std::size_t round = 0; round < NumRounds(data.size(), per_round); ++round) {
    const std::span<float> chunk = Chunk(data, round * per_round, per_round);
    const bool is_small = chunk.size_bytes() * world() <= kSmallSumBytes || world() == 2;
    RETURN_IF_ERROR(is_small ? AllReduceSmall(chunk) : AllReduceLarge(chunk));
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryCommunicator::AllReduceSmall(std::span<float> chunk) {
  Copy(SlotToWrite(), chunk.data(), chunk.size_bytes());
  RETURN_IF_ERROR(rendezvous_.Meet());
  SumSlots(0, chunk);
  return absl::OkStatus();
}

absl::Status SharedMemoryCommunicator::AllReduceLarge(std::span<float> chunk) {
  Copy(SlotToWrite(), chunk.data(), chunk.size_bytes());
  RETURN_IF_ERROR(rendezvous_.Meet());
  const sharding::Interval mine = PartOf(chunk.size(), rank().index, world());
  SumSlots(mine.begin, {reinterpret_cast<float*>(SlotToWrite()), static_cast<std::size_t>(mine.size())});
  RETURN_IF_ERROR(rendezvous_.Meet());
  for (int r = 0; r < world(); ++r) {
    const sharding::Interval part = PartOf(chunk.size(), r, world());
    Copy(reinterpret_cast<std::byte*>(chunk.data() + part.begin), SlotToRead(r), part.size() * sizeof(float));
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryCommunicator::AllGather(std::span<const std::byte> mine, std::span<const std::size_t> sizes,
                                                 std::span<std::byte> all) {
  CHECK_EQ(sizes.size(), static_cast<std::size_t>(world()));
  CHECK_EQ(sizes[rank().index], mine.size());
  CHECK_EQ(Sum(sizes), all.size());
  const Scope scope(rendezvous_, {CollectiveKind::kAllGather, Checksum(sizes), all.size()});
  const std::size_t rounds = NumRounds(*std::max_element(sizes.begin(), sizes.end()), chunk_bytes_);
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::span<const std::byte> chunk = Chunk(mine, round * chunk_bytes_, chunk_bytes_);
    Copy(SlotToWrite(), chunk.data(), chunk.size());
    RETURN_IF_ERROR(rendezvous_.Meet());
    std::size_t begin = 0;
    for (int r = 0; r < world(); begin += sizes[r++]) {
      const std::span<std::byte> to = Chunk(all.subspan(begin, sizes[r]), round * chunk_bytes_, chunk_bytes_);
      Copy(to.data(), SlotToRead(r), to.size());
    }
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryCommunicator::ReduceScatterSum(std::span<const float> data, std::span<const std::size_t> sizes,
                                                        std::span<float> mine) {
  CHECK_EQ(sizes.size(), static_cast<std::size_t>(world()));
  CHECK_EQ(sizes[rank().index], mine.size());
  CHECK_EQ(Sum(sizes), data.size());
  const Scope scope(rendezvous_, {CollectiveKind::kReduceScatter, Checksum(sizes), data.size()});
  const std::size_t mine_begin = Sum(sizes.first(rank().index));
  const std::size_t per_round = chunk_bytes_ / sizeof(float);
  for (std::size_t round = 0; round < NumRounds(data.size(), per_round); ++round) {
    const std::size_t chunk_begin = round * per_round;
    const std::span<const float> chunk = Chunk(data, chunk_begin, per_round);
    Copy(SlotToWrite(), chunk.data(), chunk.size_bytes());
    RETURN_IF_ERROR(rendezvous_.Meet());
    const std::size_t begin = std::max(mine_begin, chunk_begin);
    const std::size_t end = std::min(mine_begin + mine.size(), chunk_begin + chunk.size());
    if (begin < end) SumSlots(begin - chunk_begin, mine.subspan(begin - mine_begin, end - begin));
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryCommunicator::Broadcast(std::span<std::byte> data, int root) {
  CHECK(root >= 0 && root < world()) << root;
  const Scope scope(rendezvous_, {CollectiveKind::kBroadcast, static_cast<std::uint32_t>(root), data.size()});
  for (std::size_t round = 0; round < NumRounds(data.size(), chunk_bytes_); ++round) {
    const std::span<std::byte> chunk = Chunk(data, round * chunk_bytes_, chunk_bytes_);
    if (rank().index == root) Copy(SlotToWrite(), chunk.data(), chunk.size());
    RETURN_IF_ERROR(rendezvous_.Meet());
    if (rank().index != root) Copy(chunk.data(), SlotToRead(root), chunk.size());
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryCommunicator::AllToAll(std::span<const std::byte> send, std::span<std::byte> receive) {
  CHECK_EQ(send.size(), receive.size());
  CHECK_EQ(send.size() % world(), 0u);
  const Scope scope(rendezvous_, {.kind = CollectiveKind::kAllToAll, .size = send.size()});
  const std::size_t block = send.size() / world();
  const std::size_t per_round = chunk_bytes_ / world();  // of each block; a slot holds a piece for every rank
  for (std::size_t round = 0; round < NumRounds(block, per_round); ++round) {
    for (int r = 0; r < world(); ++r) {
      const std::span<const std::byte> piece = Chunk(send.subspan(r * block, block), round * per_round, per_round);
      Copy(SlotToWrite() + r * per_round, piece.data(), piece.size());
    }
    RETURN_IF_ERROR(rendezvous_.Meet());
    for (int r = 0; r < world(); ++r) {
      const std::span<std::byte> piece = Chunk(receive.subspan(r * block, block), round * per_round, per_round);
      Copy(piece.data(), SlotToRead(r) + rank().index * per_round, piece.size());
    }
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryCommunicator::Barrier(std::optional<absl::Duration> timeout) {
  const Scope scope(rendezvous_, {.kind = CollectiveKind::kBarrier}, timeout);
  return rendezvous_.Meet();
}

}  // namespace trireme::worker
