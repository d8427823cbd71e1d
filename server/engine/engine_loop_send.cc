// The part of the loop that admits, schedules and sends.
#include "server/engine/engine_loop.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace trireme::server {
namespace {

// The first `limit` of them, in the order in which they are served.
std::vector<const Sequence*> InOrder(std::vector<const Sequence*> sequences, std::size_t limit) {
  const std::size_t count = std::min(limit, sequences.size());
  std::partial_sort(sequences.begin(), sequences.begin() + static_cast<std::ptrdiff_t>(count), sequences.end(),
                    [](const Sequence* a, const Sequence* b) { return a->order < b->order; });
  sequences.resize(count);
  return sequences;
}

}  // namespace

void EngineLoop::SendSteps() {
  while (group_.has_value() && in_flight_.size() < options_.max_steps_in_flight) {
    const Decision decision = Schedule(options_.limits, TakeSnapshot());
    if (decision.items.empty()) {
      CHECK(!in_flight_.empty() || (running_.empty() && waiting_.empty())) << "nothing to do, but requests are alive";
      break;
    }
    Carry(decision);
  }
}

Snapshot EngineLoop::TakeSnapshot() const {
  Snapshot snapshot;
  std::vector<const Sequence*> running;
  for (const auto& [key, sequence] : running_) running.push_back(&sequence);
  for (const Sequence* sequence : InOrder(std::move(running), running_.size())) {
    snapshot.running.push_back(sequence->View(length_limit_));
  }
  snapshot.waiting = AdmissibleViews();
  snapshot.max_prompt_tokens = MaxPromptTokens(snapshot.running);
  snapshot.free_blocks = group_->free_blocks();
  if (MayPreempt(options_.limits, snapshot)) CountSharedBlocks(snapshot.running);
  return snapshot;
}

void EngineLoop::CountSharedBlocks(std::vector<SequenceView>& running) const {
  std::vector<const Place*> last_first;
  for (auto view = running.rbegin(); view != running.rend(); ++view) {
    last_first.push_back(&*running_.at(view->key).place);
  }
  const std::vector<std::uint32_t> lasting = group_->CountLasting(last_first);
  std::size_t i = 0;
  for (auto view = running.rbegin(); view != running.rend(); ++view) view->num_shared_blocks = lasting[i++];
}

// The first of those that may be admitted: no more than there are free slots, blocks or tokens of the budget for, since
// a look into the cache takes time. While a suspect runs, nobody joins it; so it is the last that is admitted.
std::vector<SequenceView> EngineLoop::AdmissibleViews() const {
  std::vector<SequenceView> views;
  const std::size_t num_free_slots = options_.limits.max_num_seqs - running_.size();
  const auto is_suspect = [this](const auto& entry) { return suspects_.Contains(entry.first); };
  if (num_free_slots == 0 || std::any_of(running_.begin(), running_.end(), is_suspect)) return views;
  std::vector<const Sequence*> ready;
  for (const auto& [key, sequence] : waiting_) {
    if (!WaitsForPrefix(sequence)) ready.push_back(&sequence);
  }
  std::uint64_t num_tokens = 0, num_blocks = 0;
  for (const Sequence* sequence : InOrder(std::move(ready), num_free_slots)) {
    if (num_tokens >= options_.limits.max_num_batched_tokens) break;
    const SequenceView view = WaitingView(*sequence);
    num_tokens += view.num_tokens - view.num_computed;
    num_blocks += BlocksFor(view.num_tokens, options_.limits.kv_block_tokens) - view.num_shared_blocks;
    if (num_blocks > group_->free_blocks()) break;
    views.push_back(view);
    if (suspects_.Contains(sequence->key)) break;
  }
  return views;
}

SequenceView EngineLoop::WaitingView(const Sequence& sequence) const {
  SequenceView view = sequence.View(length_limit_);
  const CachedPrefix prefix = group_->Find(sequence.request->cache_salt, sequence.findable());
  view.num_blocks = static_cast<std::uint32_t>(prefix.blocks.size());
  view.num_computed = view.num_blocks * options_.limits.kv_block_tokens;
  view.num_shared_blocks = prefix.num_held;
  return view;
}

// Whether sequence 0 of its request is about to compute what this one could find in the cache.
bool EngineLoop::WaitsForPrefix(const Sequence& sequence) const {
  const std::uint32_t num_prompt_tokens = sequence.request->num_prompt_tokens();
  if (!options_.prefix_caching || sequence.index == 0 || num_prompt_tokens <= options_.limits.kv_block_tokens) {
    return false;
  }
  const Sequence* const first = Find(sequence.request->key);
  return first != nullptr && first->num_computed < num_prompt_tokens;
}

// As many as the streams that run can bear.
std::uint32_t EngineLoop::MaxPromptTokens(const std::vector<SequenceView>& running) const {
  const auto num_decodes = static_cast<std::uint32_t>(std::count_if(running.begin(), running.end(), IsDecode));
  if (num_decodes == 0 || !options_.max_step_stretch) return options_.limits.max_num_batched_tokens;
  return cost_.PromptTokensBeside(num_decodes, *options_.max_step_stretch);
}

// Carries a decision out and sends it as a step.
void EngineLoop::Carry(const Decision& decision) {
  StepCommand command;
  command.generation = group_->generation();
  command.number = ++last_step_;
  StepInFlight step{.number = command.number, .expected = {}, .parts = {}};
  for (const std::uint64_t key : decision.preempt) Preempt(key);
  for (const std::uint64_t key : decision.admit) command.admissions.push_back(Admit(key));
  for (const ScheduledItem& item : decision.items) command.items.push_back(Advance(item, step));
  command.releases = group_->TakeReleases();
  in_flight_.push_back(std::move(step));
  gate_.Publish(CurrentLoads());
  link_.Send(command);
}

void EngineLoop::Preempt(std::uint64_t key) {
  Suspend(key);
  ++num_preemptions_;
}

// Sends it back to the queue, to be computed anew. What steps in flight sample for it is dropped, for its place is
// gone; it will be sampled again, the same.
void EngineLoop::Suspend(std::uint64_t key) {
  Sequence& sequence = waiting_.insert(running_.extract(key)).position->second;
  if (group_.has_value()) group_->Release(*sequence.place);
  sequence.place.reset();
  sequence.num_computed = 0;
  sequence.num_sampling = 0;
}

Admission EngineLoop::Admit(std::uint64_t key) {
  Sequence& sequence = running_.insert(waiting_.extract(key)).position->second;
  ActiveRequest& request = *sequence.request;
  sequence.place = group_->Admit(request.cache_salt, sequence.findable());
  sequence.num_computed = sequence.place->num_blocks() * options_.limits.kv_block_tokens;
  if (!request.first_scheduled.has_value()) {
    request.first_scheduled = request.Age();
    request.cached_tokens = sequence.num_computed;
  }
  Admission admission{.slot = sequence.place->slot,
                      .epoch = sequence.place->epoch,
                      .tokens = sequence.tokens,
                      .num_prompt_tokens = request.num_prompt_tokens(),
                      .num_computed = sequence.num_computed,
                      .sampling = request.sampling,
                      .sample = sequence.index,
                      .min_tokens = request.stopping.min_tokens,
                      .ending_token_ids = request.ending_token_ids,
                      .first_prompt_logprob = request.num_prompt_logprobs + 1};
  if (!sequence.wants_prompt_logprobs()) {
    admission.sampling.prompt_logprobs.reset();
    admission.first_prompt_logprob = 1;
  }
  return admission;
}

StepItem EngineLoop::Advance(const ScheduledItem& item, StepInFlight& step) {
  Sequence& sequence = running_.at(item.key);
  Expected expected{.key = item.key, .slot = sequence.place->slot, .epoch = sequence.place->epoch};
  expected.num_prompt_logprobs = NumLogprobRows(sequence.View(length_limit_), item.num_tokens);
  sequence.num_computed += item.num_tokens;
  step.num_tokens += item.num_tokens;
  step.parts.push_back({.key = item.key, .num_computed = sequence.num_computed});
  expected.samples = sequence.num_computed == sequence.tokens.size() + sequence.num_sampling;
  sequence.num_sampling += expected.samples;
  if (expected.samples || expected.num_prompt_logprobs > 0) step.expected.push_back(expected);
  StepItem sent{.slot = expected.slot,
                .num_tokens = item.num_tokens,
                .new_blocks = group_->Extend(*sequence.place, item.new_blocks)};
  // Found only by sequences of later steps: those of this one were admitted before.
  group_->Register(*sequence.place, sequence.request->cache_salt, sequence.computed());
  return sent;
}

}  // namespace trireme::server
