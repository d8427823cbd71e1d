// Which sequences take part in the next step, and with how many tokens: a pure function of a snapshot, so that its
// tests are tables.
//
// Policy: running sequences first, in their order (service_order.h), decodes before prefill chunks so that no stream
// waits for another's prompt; then waiting ones strictly in order, each admitted as soon as a slot, a token of the
// budget and blocks for all that is known of it are there. (Blocks for its first chunk alone would do to begin, but
// then prompts that do not fit together would evict each other half-way.) Nobody that runs is thrown out for one that
// waits.
//
// A sequence whose prompt another of its request is computing is passed over until it can find that in the cache; the
// other comes before it in the order, so this ends.
//
// Rows of logits: every sequence of the step has one of max_logit_rows, to sample from. What is left goes, in order, to
// those that want log-probabilities of their prompts; their chunks are cut to it.
//
// When a running sequence lacks a block, the last running one is preempted: its blocks are freed, it waits again and is
// computed anew. The last itself does not evict itself but skips the step.
//
// Every sequence ends, as long as each fits alone: the first of those that run is never preempted, so it progresses and
// ends. While the first of those that wait is not admitted, nobody else is; so what runs only gets less, until there is
// room for it. It is overtaken only by those that come before it in the order.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace trireme::server {

struct SchedulerLimits {
  std::uint32_t max_num_seqs = 0;            // slots, > 0
  std::uint32_t max_num_batched_tokens = 0;  // of a step; >= max_num_seqs, so that no decode waits for another
  std::uint32_t max_logit_rows = 0;          // of a step; >= max_num_seqs
  std::uint32_t kv_block_tokens = 0;         // > 0
};

// A sequence as the scheduler sees it, as it will be when all steps in flight are done: what they compute is computed,
// and what they sample counts as a token though its id is not known here.
struct SequenceView {
  std::uint64_t key = 0;         // the engine's handle
  std::uint32_t num_tokens = 0;  // prompt and generated
  // Whose keys and values are in the KV cache; <= num_tokens, equal if done. If waiting: of the cached prefix that it
  // would find; < num_tokens.
  std::uint32_t num_computed = 0;
  std::uint32_t num_blocks = 0;  // held, per KV group; enough for num_computed. If waiting: of that prefix
  // Of these, that others hold: to let go of them frees none, to take them uses up none. Others are those before it in
  // the order, if it runs: whoever is preempted goes after all that come behind it. See MayPreempt.
  std::uint32_t num_shared_blocks = 0;
  // Positions in [begin, end) give a log-probability of the prompt, as far as they are not computed.
  std::uint32_t logprobs_begin = 0;
  std::uint32_t logprobs_end = 0;  // < num_tokens
};

// Each in order; who waits may come before one that runs.
struct Snapshot {
  std::vector<SequenceView> running;  // hold a slot and at least one block; at most max_num_seqs
  std::vector<SequenceView> waiting;  // those that may be admitted
  std::uint32_t free_blocks = 0;      // the least over the KV groups
  // Tokens of this step that are not decodes; the limits hold, too.
  std::uint32_t max_prompt_tokens = std::numeric_limits<std::uint32_t>::max();
};

// Whether all it lacks is one token: it is a stream that should go on, whatever the prompts of others cost.
inline bool IsDecode(const SequenceView& view) { return view.num_tokens - view.num_computed == 1; }

// A sequence's part in the step. Where num_computed + num_tokens reaches its num_tokens, the step samples its next.
struct ScheduledItem {
  std::uint64_t key = 0;
  std::uint32_t num_tokens = 0;  // > 0
  std::uint32_t new_blocks = 0;  // per KV group
  bool operator==(const ScheduledItem&) const = default;
};

struct Decision {
  std::vector<std::uint64_t> preempt;  // the last in order first; before anything is allocated
  std::vector<ScheduledItem> items;    // of running sequences, then of those admitted now; each in order
  std::vector<std::uint64_t> admit;    // from waiting, in order; each has an item
  bool operator==(const Decision&) const = default;
};

// Rows of log-probabilities of the prompt among the next `num_tokens` that are computed of it.
std::uint32_t NumLogprobRows(const SequenceView& view, std::uint32_t num_tokens);

// Blocks that hold `num_tokens` tokens.
std::uint32_t BlocksFor(std::uint32_t num_tokens, std::uint32_t kv_block_tokens);

// Whether the free blocks may not do for what runs. If not, the num_shared_blocks of what runs mean nothing.
bool MayPreempt(const SchedulerLimits& limits, const Snapshot& snapshot);

Decision Schedule(const SchedulerLimits& limits, const Snapshot& snapshot);

}  // namespace trireme::server
