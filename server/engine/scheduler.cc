#include "server/engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace trireme::server {
namespace {

// A decision while it is made: what is left of budget and blocks, and what each running sequence got.
class StepPlan {
 public:
  StepPlan(const SchedulerLimits& limits, const Snapshot& snapshot)
      : limits_(limits),
        snapshot_(snapshot),
        budget_(limits.max_num_batched_tokens),
        prompt_budget_(std::min(snapshot.max_prompt_tokens, limits.max_num_batched_tokens)),
        free_blocks_(snapshot.free_blocks),
        spare_logit_rows_(limits.max_logit_rows - MaxSequences()),
        num_kept_(snapshot.running.size()),
        granted_(snapshot.running.size()) {}

  void GrantDecodes() {
    for (std::size_t i = 0; i < num_kept_; ++i) {
      if (IsDecode(snapshot_.running[i])) Grant(i);
    }
  }

  void GrantPrefillChunks() {
    for (std::size_t i = 0; i < num_kept_; ++i) {
      if (!IsDecode(snapshot_.running[i])) Grant(i);
    }
  }

  void AdmitWaiting();
  Decision ToDecision() const;

  // Blocks that those that run still lack for what is known of them: budget or rows of logits may have cut their chunks.
  std::uint32_t BlocksOwed() const;

 private:
  std::uint32_t Blocks(std::uint32_t num_tokens) const { return BlocksFor(num_tokens, limits_.kv_block_tokens); }

  std::uint32_t MaxSequences() const;
  std::uint32_t LeftToCompute(const SequenceView& view) const;
  std::uint32_t SpareLogitRows(const SequenceView& view, std::uint32_t num_tokens) const;
  void Grant(std::size_t i);
  // Tokens that are left for it.
  std::uint32_t BudgetOf(const SequenceView& view) const {
    return IsDecode(view) ? budget_ : std::min(budget_, prompt_budget_);
  }
  void Spend(const SequenceView& view, std::uint32_t num_tokens);
  void GiveBack(const SequenceView& view, std::uint32_t num_tokens);
  void PreemptLast();

  const SchedulerLimits& limits_;
  const Snapshot& snapshot_;
  std::uint32_t budget_;
  std::uint32_t prompt_budget_;  // of what are not decodes, within budget_
  std::uint32_t free_blocks_;
  std::uint32_t spare_logit_rows_;      // beyond one for each sequence
  std::size_t num_kept_;                // running sequences that are not preempted: the first
  std::vector<ScheduledItem> granted_;  // per running sequence; num_tokens 0 for none
  std::vector<ScheduledItem> admitted_;
};

void StepPlan::Spend(const SequenceView& view, std::uint32_t num_tokens) {
  budget_ -= num_tokens;
  if (!IsDecode(view)) prompt_budget_ -= num_tokens;
}

void StepPlan::GiveBack(const SequenceView& view, std::uint32_t num_tokens) {
  budget_ += num_tokens;
  if (!IsDecode(view)) prompt_budget_ += num_tokens;
}

// Those that may take part in the step, at most.
std::uint32_t StepPlan::MaxSequences() const {
  const std::size_t most = snapshot_.running.size() + snapshot_.waiting.size();
  return static_cast<std::uint32_t>(std::min<std::size_t>(limits_.max_num_seqs, most));
}

// All, or as many as have logits for their rows.
std::uint32_t StepPlan::LeftToCompute(const SequenceView& view) const {
  std::uint32_t left = view.num_tokens - view.num_computed;
  const std::uint32_t rows = NumLogprobRows(view, left), most = spare_logit_rows_ + 1;
  if (rows == most) --left;  // and none for the last, from which it would sample
  if (rows > most) left = std::max(view.logprobs_begin, view.num_computed) - view.num_computed + most;
  return left;
}

// Beyond its own.
std::uint32_t StepPlan::SpareLogitRows(const SequenceView& view, std::uint32_t num_tokens) const {
  const std::uint32_t samples = view.num_computed + num_tokens == view.num_tokens;
  return std::max(NumLogprobRows(view, num_tokens) + samples, 1u) - 1;
}

// Gives running sequence `i` what it still has to compute, as far as budget and blocks go. Evicts later ones only if
// it could not take a single token otherwise.
void StepPlan::Grant(std::size_t i) {
  const SequenceView& view = snapshot_.running[i];
  const std::uint32_t left = LeftToCompute(view);
  if (left == 0 || BudgetOf(view) == 0) return;
  const std::uint32_t room = view.num_blocks * limits_.kv_block_tokens - view.num_computed;
  while (room == 0 && free_blocks_ == 0 && i + 1 < num_kept_) PreemptLast();
  const std::uint64_t reachable = room + std::uint64_t{free_blocks_} * limits_.kv_block_tokens;
  const auto num_tokens =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(std::min(left, BudgetOf(view)), reachable));
  if (num_tokens == 0) return;
  const std::uint32_t needed = Blocks(view.num_computed + num_tokens);
  const std::uint32_t new_blocks = needed - std::min(needed, view.num_blocks);
  granted_[i] = {.key = view.key, .num_tokens = num_tokens, .new_blocks = new_blocks};
  Spend(view, num_tokens);
  free_blocks_ -= new_blocks;
  spare_logit_rows_ -= SpareLogitRows(view, num_tokens);
}

// Whoever it is had a decode at most, for prefill chunks are granted in order: so no spare row comes back.
void StepPlan::PreemptLast() {
  ScheduledItem& item = granted_[--num_kept_];
  const SequenceView& view = snapshot_.running[num_kept_];
  free_blocks_ += view.num_blocks - view.num_shared_blocks + item.new_blocks;
  GiveBack(view, item.num_tokens);
  item = {};
}

std::uint32_t StepPlan::BlocksOwed() const {
  std::uint32_t owed = 0;
  for (std::size_t i = 0; i < num_kept_; ++i) {
    const std::uint32_t wanted = Blocks(snapshot_.running[i].num_tokens);
    owed += wanted - std::min(wanted, snapshot_.running[i].num_blocks + granted_[i].new_blocks);
  }
  return owed;
}

void StepPlan::AdmitWaiting() {
  // The blocks of whoever was just evicted are for one that runs.
  if (num_kept_ < snapshot_.running.size()) return;
  std::uint32_t owed = BlocksOwed();
  for (const SequenceView& view : snapshot_.waiting) {
    if (num_kept_ + admitted_.size() == limits_.max_num_seqs || BudgetOf(view) == 0) return;
    if (Blocks(view.num_tokens) - view.num_shared_blocks + owed > free_blocks_) return;
    const std::uint32_t num_tokens = std::min(LeftToCompute(view), BudgetOf(view));
    const std::uint32_t new_blocks = Blocks(view.num_computed + num_tokens) - view.num_blocks;
    admitted_.push_back({.key = view.key, .num_tokens = num_tokens, .new_blocks = new_blocks});
    Spend(view, num_tokens);
    free_blocks_ -= new_blocks + view.num_blocks - view.num_shared_blocks;
    spare_logit_rows_ -= SpareLogitRows(view, num_tokens);
    owed += Blocks(view.num_tokens) - Blocks(view.num_computed + num_tokens);
  }
}

Decision StepPlan::ToDecision() const {
  Decision decision;
  for (std::size_t i = snapshot_.running.size(); i > num_kept_; --i) {
    decision.preempt.push_back(snapshot_.running[i - 1].key);
  }
  for (std::size_t i = 0; i < num_kept_; ++i) {
    if (granted_[i].num_tokens > 0) decision.items.push_back(granted_[i]);
  }
  for (const ScheduledItem& item : admitted_) {
    decision.items.push_back(item);
    decision.admit.push_back(item.key);
  }
  return decision;
}

}  // namespace

std::uint32_t NumLogprobRows(const SequenceView& view, std::uint32_t num_tokens) {
  const std::uint32_t begin = std::max(view.logprobs_begin, view.num_computed);
  const std::uint32_t end = std::min(view.logprobs_end, view.num_computed + num_tokens);
  return end - std::min(begin, end);
}

std::uint32_t BlocksFor(std::uint32_t num_tokens, std::uint32_t kv_block_tokens) {
  return num_tokens / kv_block_tokens + (num_tokens % kv_block_tokens != 0);
}

bool MayPreempt(const SchedulerLimits& limits, const Snapshot& snapshot) {
  return StepPlan(limits, snapshot).BlocksOwed() > snapshot.free_blocks;
}

Decision Schedule(const SchedulerLimits& limits, const Snapshot& snapshot) {
  CHECK_GT(limits.kv_block_tokens, 0u);
  CHECK_GE(limits.max_logit_rows, limits.max_num_seqs);
  CHECK_LE(snapshot.running.size(), limits.max_num_seqs);
  StepPlan plan(limits, snapshot);
  plan.GrantDecodes();
  plan.GrantPrefillChunks();
  plan.AdmitWaiting();
  return plan.ToDecision();
}

}  // namespace trireme::server
