// Who holds which slot and which KV blocks of the worker group that is up. The workers only carry out what is decided
// here.
#pragma once
#include <cstdint>
#include <vector>

#include "server/engine/kv_block_pool.h"
#include "server/engine/step_link.h"

namespace trireme::server {

// Where a running sequence lies.
struct Place {
  std::uint32_t slot = 0;
  std::uint64_t epoch = 0;                         // of this admission; no other of the group has it
  std::vector<std::vector<std::uint32_t>> blocks;  // per KV group, equally many in each
  std::uint32_t num_blocks() const { return static_cast<std::uint32_t>(blocks.front().size()); }
};

// Not thread-safe: the engine's thread owns it.
class GroupLedger {
 public:
  // REQUIRES: at least one KV group.
  GroupLedger(const GroupCapacity& capacity, std::uint32_t max_num_seqs);

  // Takes a slot; it holds no blocks yet. REQUIRES: fewer than max_num_seqs places are out.
  Place Admit();

  // Adds `count` blocks of each KV group to the place and returns those: empty if `count` is 0.
  // REQUIRES: count <= free_blocks().
  std::vector<std::vector<std::uint32_t>> Extend(Place& place, std::uint32_t count);

  // Frees slot and blocks at once. Steps that are in flight may still use them: workers go through steps in order, so
  // these are over before a later step gives them to another.
  void Release(const Place& place);

  // Slots released since the last call: the workers learn of them with the next step.
  std::vector<std::uint32_t> TakeReleases();

  std::uint64_t generation() const { return generation_; }
  // The least over the KV groups.
  std::uint32_t free_blocks() const;
  // Of the KV group with the least free.
  std::uint32_t used_blocks() const;
  std::uint32_t total_blocks() const;

 private:
  const KvBlockPool& Fullest() const;

  std::uint64_t generation_;
  std::vector<KvBlockPool> pools_;
  std::uint64_t last_epoch_ = 0;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> releases_;
};

}  // namespace trireme::server
