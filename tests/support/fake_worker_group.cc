#include "tests/support/fake_worker_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace trireme::server {
namespace {

std::uint64_t Mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kEmptyHash = 1;
constexpr std::uint64_t kSampleStride = 0x5851f42d4c957f2du;  // no test has two seeds that far apart

std::uint64_t Extend(std::uint64_t hash, std::uint32_t token) { return Mix(hash ^ (token + 1)); }

std::uint32_t TokenFrom(std::uint64_t hash, std::uint64_t seed, std::uint32_t vocab_size) {
  return static_cast<std::uint32_t>(Mix(hash ^ Mix(seed)) % vocab_size);
}

}  // namespace

std::uint32_t FakeNextToken(std::span<const std::uint32_t> tokens, std::uint64_t seed, std::uint32_t vocab_size,
                            std::uint32_t sample) {
  std::uint64_t hash = kEmptyHash;
  for (const std::uint32_t token : tokens) hash = Extend(hash, token);
  return TokenFrom(hash, seed + sample * kSampleStride, vocab_size);
}

std::vector<std::uint32_t> FakeContinuation(std::vector<std::uint32_t> prompt, std::uint64_t seed,
                                            std::uint32_t vocab_size, std::uint32_t count, std::uint32_t sample) {
  std::vector<std::uint32_t> generated;
  for (std::uint32_t i = 0; i < count; ++i) {
    generated.push_back(FakeNextToken(prompt, seed, vocab_size, sample));
    prompt.push_back(generated.back());
  }
  return generated;
}

GeneratedToken FakePromptLogprob(std::span<const std::uint32_t> tokens, std::size_t position,
                                 std::uint32_t num_alternatives) {
  const std::uint32_t id = tokens[position];
  const auto logprob = -static_cast<float>(FakeNextToken(tokens.first(position), id, 1000));
  return {.token_id = id,
          .logprob = TokenLogprob{.logprob = logprob, .rank = 2, .top = {num_alternatives, {id, logprob}}}};
}

FakeWorkerGroup::FakeWorkerGroup(FakeGroupOptions options)
    : options_(std::move(options)), num_kv_blocks_(options_.num_kv_blocks), thread_([this] { Run(); }) {}

FakeWorkerGroup::~FakeWorkerGroup() { Shutdown(); }

void FakeWorkerGroup::SetListener(StepListener* listener) {
  MutexLock lock(mutex_);
  listener_ = listener;
}

void FakeWorkerGroup::BringUp() {
  MutexLock lock(mutex_);
  BringUpLocked();
}

void FakeWorkerGroup::BringUpLocked() {
  is_up_ = true;
  last_sent_ = 0;
  slots_.assign(options_.limits.max_num_seqs, {});
  kv_.clear();
  for (const std::uint32_t blocks : num_kv_blocks_) {
    kv_.emplace_back(std::size_t{blocks} * options_.limits.kv_block_tokens, 0);
  }
  listener_->OnGroupUp({.generation = ++generation_, .num_kv_blocks = num_kv_blocks_});
}

void FakeWorkerGroup::TakeDown(const absl::Status& cause, bool for_good) {
  MutexLock lock(mutex_);
  TakeDownLocked(cause, for_good);
}

void FakeWorkerGroup::TakeDownLocked(const absl::Status& cause, bool for_good) {
  is_up_ = false;
  steps_.clear();
  listener_->OnGroupDown(cause, for_good);
}

void FakeWorkerGroup::Pause(std::uint64_t num_steps) {
  MutexLock lock(mutex_);
  steps_until_pause_ = num_steps;
}

void FakeWorkerGroup::Resume() {
  MutexLock lock(mutex_);
  steps_until_pause_ = UINT64_MAX;
  changed_.SignalAll();
}

void FakeWorkerGroup::DieOf(std::uint32_t token) {
  MutexLock lock(mutex_);
  deadly_token_ = token;
}

void FakeWorkerGroup::SetKvBlocks(std::vector<std::uint32_t> num_kv_blocks) {
  MutexLock lock(mutex_);
  num_kv_blocks_ = std::move(num_kv_blocks);
}

void FakeWorkerGroup::Shutdown() {
  {
    MutexLock lock(mutex_);
    is_shut_down_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

std::uint64_t FakeWorkerGroup::num_steps() {
  MutexLock lock(mutex_);
  return num_steps_;
}

std::uint64_t FakeWorkerGroup::generation() {
  MutexLock lock(mutex_);
  return generation_;
}

std::uint64_t FakeWorkerGroup::num_computed_tokens() {
  MutexLock lock(mutex_);
  return num_computed_tokens_;
}

std::vector<std::uint64_t> FakeWorkerGroup::excused() {
  MutexLock lock(mutex_);
  return excused_;
}

void FakeWorkerGroup::ExcuseLosses(std::span<const std::uint64_t> generations) {
  MutexLock lock(mutex_);
  excused_.insert(excused_.end(), generations.begin(), generations.end());
}

void FakeWorkerGroup::Send(const StepCommand& command) {
  MutexLock lock(mutex_);
  if (!is_up_ || command.generation != generation_) return;
  EXPECT_EQ(command.number, ++last_sent_);
  steps_.push_back(command);
  EXPECT_LE(steps_.size(), options_.max_steps_in_flight);
  changed_.SignalAll();
}

void FakeWorkerGroup::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!is_shut_down_ && (steps_.empty() || steps_until_pause_ == 0)) {
      changed_.WaitUntil(mutex_, absl::InfiniteFuture());
    }
    if (is_shut_down_) return;
    if (options_.step_time > absl::ZeroDuration()) {
      const std::uint64_t generation = generation_;
      mutex_.Unlock();
      absl::SleepFor(options_.step_time);
      mutex_.Lock();
      if (steps_.empty() || generation != generation_ || steps_until_pause_ == 0) continue;
    }
    if (IsDeadly(steps_.front())) {
      TakeDownLocked(absl::UnavailableError(absl::StrCat("rank 0 died of token ", *deadly_token_)), false);
      BringUpLocked();
      continue;
    }
    StepResult result = CarryOut(steps_.front());
    steps_.pop_front();
    ++num_steps_;
    --steps_until_pause_;
    listener_->OnStepResult(std::move(result));
  }
}

bool FakeWorkerGroup::IsDeadly(const StepCommand& command) {
  if (!deadly_token_) return false;
  for (const StepItem& item : command.items) {
    const Slot& slot = slots_.at(item.slot);
    const std::vector<std::uint32_t>* tokens = &slot.tokens;
    std::size_t begin = slot.num_computed;
    for (const Admission& admission : command.admissions) {
      if (admission.slot != item.slot) continue;
      tokens = &admission.tokens;
      begin = admission.num_computed;
    }
    const auto first = tokens->begin() + static_cast<std::ptrdiff_t>(begin);
    if (std::find(first, first + item.num_tokens, *deadly_token_) != first + item.num_tokens) return true;
  }
  return false;
}

StepResult FakeWorkerGroup::CarryOut(const StepCommand& command) {
  StepResult result{.number = command.number, .slots = {}, .duration = options_.step_time};
  for (const std::uint32_t slot : command.releases) Release(slot);
  for (const Admission& admission : command.admissions) Admit(admission);
  EXPECT_FALSE(command.items.empty());
  std::set<std::uint32_t> seen;
  std::size_t num_tokens = 0, num_logit_rows = 0;
  for (const StepItem& item : command.items) {
    EXPECT_TRUE(seen.insert(item.slot).second) << "two items of slot " << item.slot;
    AddBlocks(item);
    num_tokens += item.num_tokens;
  }
  // What is said to be computed must come from earlier steps.
  for (const StepItem& item : command.items) CheckKvCache(slots_.at(item.slot));
  for (const StepItem& item : command.items) {
    SlotTokens told = CarryOut(item);
    num_logit_rows += told.tokens.size() + told.prompt_tokens.size();
    if (!told.tokens.empty() || !told.prompt_tokens.empty()) result.slots.push_back(std::move(told));
  }
  EXPECT_LE(num_tokens, options_.limits.max_num_batched_tokens);
  EXPECT_LE(num_logit_rows, options_.limits.max_logit_rows);
  for (const Admission& admission : command.admissions) EXPECT_TRUE(seen.contains(admission.slot));
  num_computed_tokens_ += num_tokens;
  return result;
}

SlotTokens FakeWorkerGroup::CarryOut(const StepItem& item) {
  Slot& slot = slots_.at(item.slot);
  SlotTokens told{.slot = item.slot, .epoch = slot.epoch, .tokens = {}, .prompt_tokens = {}};
  const std::uint32_t begin = slot.num_computed;
  Compute(slot, item.num_tokens);
  if (slot.sampling.prompt_logprobs.has_value()) {
    const std::uint32_t end = std::min(slot.num_computed + 1, slot.num_prompt_tokens);
    for (std::uint32_t next = std::max(begin + 1, slot.first_prompt_logprob); next < end; ++next) {
      told.prompt_tokens.push_back(FakePromptLogprob(slot.tokens, next, *slot.sampling.prompt_logprobs));
    }
  }
  if (slot.num_computed == slot.tokens.size()) told.tokens.push_back(Sample(slot));
  return told;
}

void FakeWorkerGroup::Release(std::uint32_t slot) {
  EXPECT_TRUE(slots_.at(slot).is_taken) << "slot " << slot;
  slots_.at(slot).is_taken = false;
}

void FakeWorkerGroup::Admit(const Admission& admission) {
  Slot& slot = slots_.at(admission.slot);
  EXPECT_FALSE(slot.is_taken) << "slot " << admission.slot;
  EXPECT_GT(admission.epoch, slot.epoch);
  EXPECT_FALSE(admission.tokens.empty());
  EXPECT_GT(admission.num_prompt_tokens, 0u);
  EXPECT_LE(admission.num_prompt_tokens, admission.tokens.size());
  EXPECT_LT(admission.num_computed, admission.tokens.size());
  if (admission.sampling.prompt_logprobs.has_value()) {
    EXPECT_GT(admission.first_prompt_logprob, admission.num_computed);
    EXPECT_LT(admission.first_prompt_logprob, admission.num_prompt_tokens);
  }
  slot = {.epoch = admission.epoch,
          .is_taken = true,
          .sampling = admission.sampling,
          .sample = admission.sample,
          .tokens = admission.tokens,
          .num_prompt_tokens = admission.num_prompt_tokens,
          .num_computed = admission.num_computed,
          .first_prompt_logprob = admission.first_prompt_logprob,
          .block_tables = std::vector<std::vector<std::uint32_t>>(kv_.size())};
}

void FakeWorkerGroup::AddBlocks(const StepItem& item) {
  Slot& slot = slots_.at(item.slot);
  EXPECT_TRUE(slot.is_taken) << "slot " << item.slot;
  EXPECT_TRUE(item.new_blocks.empty() || item.new_blocks.size() == kv_.size());
  for (std::size_t group = 0; group < item.new_blocks.size(); ++group) {
    slot.block_tables[group].insert(slot.block_tables[group].end(), item.new_blocks[group].begin(),
                                    item.new_blocks[group].end());
  }
}

std::uint64_t& FakeWorkerGroup::KvCell(std::size_t group, const Slot& slot, std::uint32_t position) {
  const std::uint32_t block_tokens = options_.limits.kv_block_tokens;
  const std::uint32_t block = slot.block_tables[group].at(position / block_tokens);
  return kv_[group].at(std::size_t{block} * block_tokens + position % block_tokens);
}

// Reads all cells as attention would.
void FakeWorkerGroup::CheckKvCache(const Slot& slot) {
  for (std::size_t group = 0; group < kv_.size(); ++group) {
    std::uint64_t hash = kEmptyHash;
    for (std::uint32_t position = 0; position < slot.num_computed; ++position) {
      hash = Extend(hash, slot.tokens[position]);
      ASSERT_EQ(KvCell(group, slot, position), hash) << "the KV cache does not hold position " << position;
    }
  }
}

// Writes the hash of each token's prefix into its cell.
void FakeWorkerGroup::Compute(Slot& slot, std::uint32_t num_tokens) {
  ASSERT_GT(num_tokens, 0u);
  ASSERT_LE(slot.num_computed + num_tokens, slot.tokens.size()) << "computes tokens that there are not";
  const std::uint32_t begin = std::exchange(slot.num_computed, slot.num_computed + num_tokens);
  for (std::size_t group = 0; group < kv_.size(); ++group) {
    ASSERT_EQ(slot.block_tables[group].size(), BlocksFor(slot.num_computed, options_.limits.kv_block_tokens));
    std::uint64_t hash = kEmptyHash;
    for (std::uint32_t position = 0; position < slot.num_computed; ++position) {
      hash = Extend(hash, slot.tokens[position]);
      if (position >= begin) KvCell(group, slot, position) = hash;
    }
  }
  CheckKvCache(slot);
}

GeneratedToken FakeWorkerGroup::Sample(Slot& slot) {
  const std::uint32_t token = FakeNextToken(slot.tokens, slot.sampling.seed, options_.vocab_size, slot.sample);
  slot.tokens.push_back(token);
  GeneratedToken generated{.token_id = token, .logprob = std::nullopt};
  if (slot.sampling.logprobs.has_value()) {
    generated.logprob = TokenLogprob{.logprob = -1.0f, .rank = 1, .top = {*slot.sampling.logprobs, {token, -1.0f}}};
  }
  return generated;
}

}  // namespace trireme::server
