// Who holds which slot and which KV blocks of the worker group that is up. The workers only carry out what is decided
// here.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "server/engine/prefix_cache.h"
#include "server/engine/step_link.h"

namespace trireme::server {

// Where a running sequence lies.
struct Place {
  std::uint32_t slot = 0;
  std::uint64_t epoch = 0;                 // of this admission; no other of the group has it
  std::vector<std::uint32_t> blocks = {};  // each is one of every KV group, under the same number
  std::uint32_t num_told = 0;              // of `blocks`, that the workers know
  std::uint32_t num_registered = 0;        // of `blocks`, that the cache knows or has found a twin of
  PrefixId registered = 0;                 // names these
  std::uint32_t num_blocks() const { return static_cast<std::uint32_t>(blocks.size()); }
};

struct LedgerOptions {
  std::uint32_t max_num_seqs = 0;
  std::uint32_t kv_block_tokens = 0;
  bool prefix_caching = true;  // false: nothing is ever found
};

// Not thread-safe: the engine's thread owns it.
class GroupLedger {
 public:
  // REQUIRES: at least one KV group.
  GroupLedger(const GroupCapacity& capacity, const LedgerOptions& options);

  // What Admit would find.
  CachedPrefix Find(std::string_view salt, std::span<const std::uint32_t> findable) const;

  // Takes a slot and the blocks of the longest cached prefix of `findable`: tokens of the sequence without those at its
  // end that must be computed whatever is cached. REQUIRES: fewer than max_num_seqs places are out.
  Place Admit(std::string_view salt, std::span<const std::uint32_t> findable);

  // Adds `count` blocks to the place. Returns per KV group the blocks that the workers do not know yet: these and, the
  // first time, the cached ones before them; empty if there are none. REQUIRES: count <= free_blocks().
  std::vector<std::vector<std::uint32_t>> Extend(Place& place, std::uint32_t count);

  // Makes the place's full blocks findable. `tokens` are the first of the sequence, as far as they are known and are
  // computed by steps that were sent. `salt` as it was admitted with.
  void Register(Place& place, std::string_view salt, std::span<const std::uint32_t> tokens);

  // Frees slot and blocks at once. Steps that are in flight may still use them: workers go through steps in order, so
  // these are over before a later step gives them to another.
  void Release(const Place& place);

  // Of each place's blocks, how many stay held when it is released after those before it in the list.
  std::vector<std::uint32_t> CountLasting(std::span<const Place* const> places) const;

  // Slots released since the last call: the workers learn of them with the next step.
  std::vector<std::uint32_t> TakeReleases();

  std::uint64_t generation() const { return generation_; }
  // Blocks that no sequence holds, cached or not; that some hold; and both: what the smallest KV group has.
  std::uint32_t free_blocks() const { return cache_.num_free(); }
  std::uint32_t used_blocks() const { return cache_.num_blocks() - cache_.num_free(); }
  std::uint32_t total_blocks() const { return cache_.num_blocks(); }

 private:
  const LedgerOptions options_;
  std::uint64_t generation_;
  std::size_t num_kv_groups_;
  PrefixCache cache_;
  std::uint64_t last_epoch_ = 0;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> releases_;
};

}  // namespace trireme::server
