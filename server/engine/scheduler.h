// Which sequences take part in the next step, and with how many tokens: a pure function of a snapshot, so that its
// tests are tables.
//
// Policy: running sequences first, oldest first, decodes before prefill chunks so that no stream waits for another's
// prompt; then waiting ones in order of arrival, each admitted as soon as a slot, tokens of the budget and blocks for
// its next chunk are there. When blocks run out the youngest running sequence is preempted (its blocks are freed, it
// waits again in front of the queue and is computed anew); the oldest never is, so something always progresses.
#pragma once
#include <cstdint>
#include <vector>

namespace trireme::server {

struct SchedulerLimits {
  std::uint32_t max_num_seqs = 0;
  std::uint32_t max_num_batched_tokens = 0;
  std::uint32_t kv_block_tokens = 0;
};

// A sequence as the scheduler sees it. Order in the snapshot is order of arrival.
struct SequenceView {
  std::uint64_t key = 0;           // the engine's handle
  std::uint32_t num_tokens = 0;    // prompt and generated: what is known
  std::uint32_t num_computed = 0;  // whose keys and values are in the cache, steps in flight included
  std::uint32_t num_blocks = 0;    // held, per KV group
};

struct Snapshot {
  std::vector<SequenceView> running;  // hold a slot
  std::vector<SequenceView> waiting;
  std::uint32_t free_blocks = 0;  // the least over the KV groups
};

struct ScheduledItem {
  std::uint64_t key = 0;
  std::uint32_t num_tokens = 0;  // > 0
  std::uint32_t new_blocks = 0;  // per KV group
  bool operator==(const ScheduledItem&) const = default;
};

struct Decision {
  std::vector<std::uint64_t> preempt;  // youngest first; before anything is allocated
  std::vector<ScheduledItem> items;    // of running sequences, then of those admitted now
  std::vector<std::uint64_t> admit;    // from waiting, in order; each has an item
  bool operator==(const Decision&) const = default;
};

Decision Schedule(const SchedulerLimits& limits, const Snapshot& snapshot);

}  // namespace trireme::server
