#include "server/engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace trireme::server {
namespace {

// Tables: snapshot in, decision out.

struct Case {
  const char* name;
  SchedulerLimits limits;
  Snapshot snapshot;
  Decision expected;
};

constexpr SchedulerLimits kLimits = {
    .max_num_seqs = 4, .max_num_batched_tokens = 10, .max_logit_rows = 6, .kv_block_tokens = 4};

SequenceView Logprobs(SequenceView view, std::uint32_t begin, std::uint32_t end) {
  view.logprobs_begin = begin;
  view.logprobs_end = end;
  return view;
}

// View: {key, num_tokens, num_computed, num_blocks, num_shared_blocks}. Item: {key, num_tokens, new_blocks}.
const Case kCases[] = {
    {"NothingToDo", kLimits, {.running = {}, .waiting = {}, .free_blocks = 9}, {}},
    {"AdmitsOne",
     kLimits,
     {.running = {}, .waiting = {{1, 5, 0, 0}}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 5, 2}}, .admit = {1}}},
    {"AdmitsAPromptThatFillsAllBlocksExactly",
     kLimits,
     {.running = {}, .waiting = {{1, 8, 0, 0}}, .free_blocks = 2},
     {.preempt = {}, .items = {{1, 8, 2}}, .admit = {1}}},
    {"AdmitsWithAChunkWhatIsLongerThanTheBudget",
     kLimits,
     {.running = {}, .waiting = {{1, 25, 0, 0}}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 10, 3}}, .admit = {1}}},
    {"WaitsForBlocksOfTheWholePrompt", kLimits, {.running = {}, .waiting = {{1, 25, 0, 0}}, .free_blocks = 6}, {}},
    {"AdmitsNobodyAheadOfTheFirst",
     kLimits,
     {.running = {{1, 5, 4, 1}}, .waiting = {{2, 17, 0, 0}, {3, 1, 0, 0}}, .free_blocks = 5},
     {.preempt = {}, .items = {{1, 1, 1}}, .admit = {}}},
    {"SharesTheBudgetInOrderOfArrival",
     kLimits,
     {.running = {}, .waiting = {{1, 4, 0, 0}, {2, 4, 0, 0}, {3, 4, 0, 0}, {4, 4, 0, 0}}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 4, 1}, {2, 4, 1}, {3, 2, 1}}, .admit = {1, 2, 3}}},
    {"AdmitsAsManyAsThereAreSlots",
     kLimits,
     {.running = {{1, 2, 1, 1}, {2, 2, 1, 1}, {3, 2, 1, 1}}, .waiting = {{4, 1, 0, 0}, {5, 1, 0, 0}}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 1, 0}, {2, 1, 0}, {3, 1, 0}, {4, 1, 1}}, .admit = {4}}},
    {"GivesARunningPromptItsBlocksBeforeAWaitingOne",
     kLimits,
     {.running = {{1, 8, 4, 1}}, .waiting = {{2, 12, 0, 0}}, .free_blocks = 3},
     {.preempt = {}, .items = {{1, 4, 1}}, .admit = {}}},
    {"DecodesGoBeforeAnOlderPrompt",
     kLimits,
     {.running = {{1, 40, 4, 1}, {2, 6, 5, 2}, {3, 8, 7, 2}}, .waiting = {}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 8, 2}, {2, 1, 0}, {3, 1, 0}}, .admit = {}}},
    {"TakesABlockWhenADecodeCrossesTheEdge",
     kLimits,
     {.running = {{1, 4, 3, 1}, {2, 5, 4, 1}}, .waiting = {}, .free_blocks = 1},
     {.preempt = {}, .items = {{1, 1, 0}, {2, 1, 1}}, .admit = {}}},
    {"SkipsWhoHasNoMoreToDo",
     kLimits,
     {.running = {{1, 4, 4, 1}, {2, 5, 4, 2}}, .waiting = {}, .free_blocks = 0},
     {.preempt = {}, .items = {{2, 1, 0}}, .admit = {}}},
    {"PreemptsTheLast",
     kLimits,
     {.running = {{1, 5, 4, 1}, {2, 3, 2, 1}, {3, 3, 2, 1}}, .waiting = {}, .free_blocks = 0},
     {.preempt = {3}, .items = {{1, 1, 1}, {2, 1, 0}}, .admit = {}}},
    {"PreemptsAsManyAsItTakes",
     kLimits,
     {.running = {{1, 5, 4, 1}, {2, 5, 4, 1}, {3, 3, 2, 1}, {4, 3, 2, 1}}, .waiting = {}, .free_blocks = 0},
     {.preempt = {4, 3}, .items = {{1, 1, 1}, {2, 1, 1}}, .admit = {}}},
    {"TheLastWaitsRatherThanEvictItself",
     kLimits,
     {.running = {{1, 3, 2, 1}, {2, 5, 4, 1}}, .waiting = {}, .free_blocks = 0},
     {.preempt = {}, .items = {{1, 1, 0}}, .admit = {}}},
    {"TakesBackWhatThePreemptedWasGiven",
     kLimits,
     {.running = {{1, 20, 4, 1}, {2, 5, 4, 1}}, .waiting = {}, .free_blocks = 1},
     {.preempt = {2}, .items = {{1, 8, 2}}, .admit = {}}},
    {"SpendsTheBudgetOfThePreempted",
     kLimits,
     {.running = {{1, 20, 4, 1}, {2, 12, 11, 3}}, .waiting = {}, .free_blocks = 0},
     {.preempt = {2}, .items = {{1, 10, 3}}, .admit = {}}},
    {"ShortensAChunkRatherThanEvict",
     kLimits,
     {.running = {{1, 20, 6, 2}, {2, 3, 2, 1}}, .waiting = {}, .free_blocks = 1},
     {.preempt = {}, .items = {{1, 6, 1}, {2, 1, 0}}, .admit = {}}},
    {"BoundsTheChunkOfAPromptThatRuns",
     kLimits,
     {.running = {{1, 10, 9, 3}, {2, 40, 4, 1}}, .waiting = {}, .free_blocks = 9, .max_prompt_tokens = 3},
     {.preempt = {}, .items = {{1, 1, 0}, {2, 3, 1}}, .admit = {}}},
    {"BoundsAllChunksTogether",
     kLimits,
     {.running = {{1, 10, 9, 3}, {2, 6, 4, 2}}, .waiting = {{3, 7, 0, 0}}, .free_blocks = 9, .max_prompt_tokens = 3},
     {.preempt = {}, .items = {{1, 1, 0}, {2, 2, 0}, {3, 1, 1}}, .admit = {3}}},
    {"AdmitsNobodyWithoutATokenForIt",
     kLimits,
     {.running = {{1, 10, 9, 3}, {2, 40, 4, 1}}, .waiting = {{3, 7, 0, 0}}, .free_blocks = 99, .max_prompt_tokens = 1},
     {.preempt = {}, .items = {{1, 1, 0}, {2, 1, 1}}, .admit = {}}},
    {"DecodesAreNoPromptTokens",
     kLimits,
     {.running = {{1, 10, 9, 3}, {2, 10, 9, 3}, {3, 10, 9, 3}},
      .waiting = {},
      .free_blocks = 0,
      .max_prompt_tokens = 1},
     {.preempt = {}, .items = {{1, 1, 0}, {2, 1, 0}, {3, 1, 0}}, .admit = {}}},
    {"KeepsTheBoundWhenADecodeIsPreempted",
     kLimits,
     {.running = {{1, 40, 8, 2}, {2, 12, 11, 3}}, .waiting = {}, .free_blocks = 0, .max_prompt_tokens = 3},
     {.preempt = {2}, .items = {{1, 3, 1}}, .admit = {}}},
    {"AdmitsNobodyInAStepThatPreempts",
     kLimits,
     {.running = {{1, 5, 4, 1}, {2, 12, 11, 3}}, .waiting = {{3, 1, 0, 0}}, .free_blocks = 0},
     {.preempt = {2}, .items = {{1, 1, 1}}, .admit = {}}},
    {"AdmitsBehindACachedPrefix",
     kLimits,
     {.running = {}, .waiting = {{1, 20, 16, 4}}, .free_blocks = 5},
     {.preempt = {}, .items = {{1, 4, 1}}, .admit = {1}}},
    {"CountsCachedBlocksThatNobodyHolds",
     kLimits,
     {.running = {}, .waiting = {{1, 20, 16, 4}, {2, 4, 0, 0}}, .free_blocks = 5},
     {.preempt = {}, .items = {{1, 4, 1}}, .admit = {1}}},
    {"CountsNoBlocksThatOthersHold",
     kLimits,
     {.running = {{1, 17, 16, 5}}, .waiting = {{2, 18, 16, 4, 4}}, .free_blocks = 1},
     {.preempt = {}, .items = {{1, 1, 0}, {2, 2, 1}}, .admit = {2}}},
    {"WaitsForBlocksBehindACachedPrefix", kLimits, {.running = {}, .waiting = {{1, 20, 16, 4}}, .free_blocks = 4}, {}},
    {"PreemptsOnWhereTheBlocksOfTheLastStayWithOthers",
     kLimits,
     {.running = {{1, 5, 4, 1}, {2, 7, 6, 2, 0}, {3, 7, 6, 2, 2}}, .waiting = {}, .free_blocks = 0},
     {.preempt = {3, 2}, .items = {{1, 1, 1}}, .admit = {}}},
    {"CutsAChunkToTheRowsOfLogits",  // 6, of which one is the other's
     kLimits,
     {.running = {Logprobs({1, 20, 4, 1}, 4, 19), {2, 9, 8, 3}}, .waiting = {}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 5, 2}, {2, 1, 0}}, .admit = {}}},
    {"TakesTokensWithoutRowsAlong",  // what was told before it was preempted
     kLimits,
     {.running = {}, .waiting = {Logprobs({1, 20, 0, 0}, 3, 19)}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 9, 3}}, .admit = {1}}},
    {"KeepsBlocksForAPromptThatRowsCutShort",
     kLimits,
     {.running = {Logprobs({1, 20, 4, 1}, 4, 19)}, .waiting = {{2, 4, 0, 0}}, .free_blocks = 4},
     {.preempt = {}, .items = {{1, 5, 2}}, .admit = {}}},
    {"SamplesWhereARowIsLeftForIt",
     kLimits,
     {.running = {}, .waiting = {Logprobs({1, 6, 0, 0}, 0, 5)}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 6, 2}}, .admit = {1}}},
    {"DoesNotSampleWhereNoRowIsLeftForIt",
     kLimits,
     {.running = {}, .waiting = {Logprobs({1, 7, 0, 0}, 0, 6)}, .free_blocks = 9},
     {.preempt = {}, .items = {{1, 6, 2}}, .admit = {1}}},
    {"SharesSpareRowsInOrder",  // 3 of them, beyond one for each
     kLimits,
     {.running = {Logprobs({1, 4, 0, 1}, 0, 3), Logprobs({2, 9, 0, 1}, 0, 8)},
      .waiting = {{3, 1, 0, 0}},
      .free_blocks = 9},
     {.preempt = {}, .items = {{1, 4, 0}, {2, 1, 0}, {3, 1, 1}}, .admit = {3}}},
};

class SchedulerTable : public testing::TestWithParam<Case> {};

std::string Text(const Decision& decision) {
  std::string text = "preempt";
  for (const std::uint64_t key : decision.preempt) text += " " + std::to_string(key);
  text += "; items";
  for (const ScheduledItem& item : decision.items) {
    text += " {" + std::to_string(item.key) + ", " + std::to_string(item.num_tokens) + ", " +
            std::to_string(item.new_blocks) + "}";
  }
  text += "; admit";
  for (const std::uint64_t key : decision.admit) text += " " + std::to_string(key);
  return text;
}

TEST_P(SchedulerTable, Decides) {
  EXPECT_EQ(Text(Schedule(GetParam().limits, GetParam().snapshot)), Text(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(Scheduler, SchedulerTable, testing::ValuesIn(kCases),
                         [](const auto& tested) { return tested.param.name; });

TEST(BlocksFor, IsExactAtTheEdges) {
  EXPECT_EQ(BlocksFor(0, 16), 0u);
  EXPECT_EQ(BlocksFor(1, 16), 1u);
  EXPECT_EQ(BlocksFor(16, 16), 1u);
  EXPECT_EQ(BlocksFor(17, 16), 2u);
  EXPECT_EQ(BlocksFor(5, 1), 5u);
  EXPECT_EQ(BlocksFor(UINT32_MAX, 16), 1u << 28);
}

// Properties, over random snapshots.

std::uint32_t Uniform(std::mt19937& random, std::uint32_t from, std::uint32_t to) {
  return std::uniform_int_distribution<std::uint32_t>(from, to)(random);
}

SchedulerLimits RandomLimits(std::mt19937& random) {
  SchedulerLimits limits;
  limits.max_num_seqs = Uniform(random, 1, 8);
  limits.max_num_batched_tokens = limits.max_num_seqs + Uniform(random, 0, 20);
  limits.max_logit_rows = limits.max_num_seqs + Uniform(random, 0, 4);
  limits.kv_block_tokens = Uniform(random, 1, 5);
  return limits;
}

void AskForLogprobs(std::mt19937& random, SequenceView& view) {
  view.logprobs_end = Uniform(random, 0, view.num_tokens - 1);
  view.logprobs_begin = Uniform(random, 0, view.logprobs_end);
}

Snapshot RandomSnapshot(std::mt19937& random, const SchedulerLimits& limits) {
  Snapshot snapshot;
  std::uint64_t key = Uniform(random, 0, 3);
  for (std::uint32_t i = Uniform(random, 0, limits.max_num_seqs); i > 0; --i) {
    const std::uint32_t num_tokens = Uniform(random, 1, 40);
    const std::uint32_t num_computed = Uniform(random, 0, 1) ? num_tokens - 1 : Uniform(random, 0, num_tokens);
    const std::uint32_t num_blocks =
        std::max(1u, BlocksFor(num_computed, limits.kv_block_tokens) + Uniform(random, 0, 1));
    snapshot.running.push_back({++key, num_tokens, num_computed, num_blocks});
    if (Uniform(random, 0, 1) == 0) snapshot.running.back().num_shared_blocks = Uniform(random, 0, num_blocks - 1);
    if (Uniform(random, 0, 3) == 0) AskForLogprobs(random, snapshot.running.back());
  }
  for (std::uint32_t i = Uniform(random, 0, 4); i > 0; --i) {
    snapshot.waiting.push_back({++key, Uniform(random, 1, 40), 0, 0});
    SequenceView& view = snapshot.waiting.back();
    if (Uniform(random, 0, 1) == 0) {
      view.num_blocks = Uniform(random, 0, (view.num_tokens - 1) / limits.kv_block_tokens);
      view.num_computed = view.num_blocks * limits.kv_block_tokens;
      view.num_shared_blocks = Uniform(random, 0, view.num_blocks);
    }
    if (Uniform(random, 0, 3) == 0) AskForLogprobs(random, view);
  }
  snapshot.free_blocks = Uniform(random, 0, 1) ? Uniform(random, 0, 2) : Uniform(random, 0, 40);
  if (Uniform(random, 0, 1)) snapshot.max_prompt_tokens = Uniform(random, 1, 12);
  return snapshot;
}

const SequenceView* FindView(const std::vector<SequenceView>& views, std::uint64_t key) {
  const auto found = std::find_if(views.begin(), views.end(), [&](const SequenceView& v) { return v.key == key; });
  return found == views.end() ? nullptr : &*found;
}

// What must hold of every decision, whatever the policy.
void ExpectLawful(const SchedulerLimits& limits, const Snapshot& snapshot, const Decision& decision) {
  std::uint64_t tokens = 0, prompt_tokens = 0, new_blocks = 0, freed = 0, logit_rows = 0;
  for (const std::uint64_t key : decision.preempt) {
    const SequenceView* const view = FindView(snapshot.running, key);
    ASSERT_NE(view, nullptr);
    freed += view->num_blocks - view->num_shared_blocks;
    EXPECT_NE(key, snapshot.running.front().key) << "the first was preempted";
  }
  // The preempted are exactly the last, the last first.
  for (std::size_t i = 0; i < decision.preempt.size(); ++i) {
    EXPECT_EQ(decision.preempt[i], snapshot.running[snapshot.running.size() - 1 - i].key);
  }
  // The admitted are exactly the first.
  for (std::size_t i = 0; i < decision.admit.size(); ++i) EXPECT_EQ(decision.admit[i], snapshot.waiting.at(i).key);
  std::set<std::uint64_t> seen;
  for (const ScheduledItem& item : decision.items) {
    EXPECT_TRUE(seen.insert(item.key).second) << "two items of one sequence";
    EXPECT_EQ(std::count(decision.preempt.begin(), decision.preempt.end(), item.key), 0);
    const SequenceView* view = FindView(snapshot.running, item.key);
    if (view == nullptr) {
      view = FindView(snapshot.waiting, item.key);
      ASSERT_NE(view, nullptr);
      EXPECT_EQ(std::count(decision.admit.begin(), decision.admit.end(), item.key), 1);
      new_blocks += view->num_blocks - view->num_shared_blocks;
    }
    EXPECT_GT(item.num_tokens, 0u);
    EXPECT_LE(view->num_computed + item.num_tokens, view->num_tokens);
    const std::uint32_t held = view->num_blocks + item.new_blocks;
    EXPECT_GE(held * limits.kv_block_tokens, view->num_computed + item.num_tokens) << "too few blocks";
    if (item.new_blocks > 0) {
      EXPECT_EQ(held, BlocksFor(view->num_computed + item.num_tokens, limits.kv_block_tokens)) << "a block too many";
    }
    tokens += item.num_tokens;
    if (!IsDecode(*view)) prompt_tokens += item.num_tokens;
    new_blocks += item.new_blocks;
    for (std::uint32_t row = view->num_computed; row < view->num_computed + item.num_tokens; ++row) {
      logit_rows += row + 1 == view->num_tokens || (row >= view->logprobs_begin && row < view->logprobs_end);
    }
  }
  for (const std::uint64_t key : decision.admit) EXPECT_TRUE(seen.count(key));
  EXPECT_LE(tokens, limits.max_num_batched_tokens);
  EXPECT_LE(prompt_tokens, snapshot.max_prompt_tokens);
  EXPECT_LE(logit_rows, limits.max_logit_rows);
  EXPECT_LE(new_blocks, snapshot.free_blocks + freed);
  EXPECT_LE(snapshot.running.size() - decision.preempt.size() + decision.admit.size(), limits.max_num_seqs);
}

TEST(Scheduler, IsLawfulOnRandomSnapshots) {
  std::mt19937 random(1);
  std::uint32_t with_preemption = 0, with_admission = 0;
  for (int i = 0; i < 100000; ++i) {
    const SchedulerLimits limits = RandomLimits(random);
    const Snapshot snapshot = RandomSnapshot(random, limits);
    const Decision decision = Schedule(limits, snapshot);
    ExpectLawful(limits, snapshot, decision);
    if (testing::Test::HasFailure()) FAIL() << "case " << i << ": " << Text(decision);
    with_preemption += !decision.preempt.empty();
    with_admission += !decision.admit.empty();
  }
  EXPECT_GT(with_preemption, 1000u);  // the generator reaches both
  EXPECT_GT(with_admission, 1000u);
}

TEST(Scheduler, PreemptsNobodyUnlessItSaysThatItMay) {
  std::mt19937 random(3);
  std::uint32_t num_safe = 0, num_preempting = 0;
  for (int i = 0; i < 20000; ++i) {
    const SchedulerLimits limits = RandomLimits(random);
    const Snapshot snapshot = RandomSnapshot(random, limits);
    const bool preempts = !Schedule(limits, snapshot).preempt.empty();
    const bool may = MayPreempt(limits, snapshot);
    ASSERT_TRUE(may || !preempts) << "round " << i;
    num_safe += !may && !snapshot.running.empty();
    num_preempting += preempts;
  }
  EXPECT_GT(num_safe, 5000u);
  EXPECT_GT(num_preempting, 500u);
}

TEST(Scheduler, GivesEveryDecodeItsTokenWhereBlocksAreAmple) {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    const SchedulerLimits limits = RandomLimits(random);
    Snapshot snapshot = RandomSnapshot(random, limits);
    snapshot.free_blocks = 1000;
    const Decision decision = Schedule(limits, snapshot);
    EXPECT_TRUE(decision.preempt.empty());
    for (const SequenceView& view : snapshot.running) {
      if (view.num_tokens - view.num_computed != 1) continue;
      ASSERT_TRUE(std::any_of(decision.items.begin(), decision.items.end(),
                              [&](const ScheduledItem& item) { return item.key == view.key; }))
          << "case " << i;
    }
  }
}

// A run: requests of random lengths and priorities arrive at random, each step is applied, every one must finish.
class Simulation {
 public:
  Simulation(std::uint32_t seed, const SchedulerLimits& limits, std::uint32_t num_blocks)
      : random_(seed), limits_(limits), num_blocks_(num_blocks) {}

  // Some come before others that are here already.
  void Arrive() { ArriveAt(10 * num_arrived_ + Uniform(random_, 0, 50)); }

  // Those of a lower `order` come first; among equals, those that arrived first. Returns the key.
  std::uint64_t ArriveAt(std::uint64_t order) {
    const std::uint32_t capacity = num_blocks_ * limits_.kv_block_tokens;
    const std::uint32_t prompt = Uniform(random_, 1, capacity);
    const std::uint32_t total = Uniform(random_, prompt + 1, capacity + 1);
    const std::uint64_t key = (order << 32) + ++num_arrived_;
    waiting_[key] = {key, prompt, 0, 0};
    final_length_[key] = total;
    return key;
  }

  void Step() {
    const Snapshot snapshot = MakeSnapshot();
    const Decision decision = Schedule(limits_, snapshot);
    ExpectLawful(limits_, snapshot, decision);
    ASSERT_TRUE(idle() || !decision.items.empty()) << "no progress";
    for (const std::uint64_t key : decision.preempt) Preempt(key);
    for (const std::uint64_t key : decision.admit) running_.insert(waiting_.extract(key));
    for (const ScheduledItem& item : decision.items) Apply(item);
  }

  bool IsAlive(std::uint64_t key) const { return running_.contains(key) || waiting_.contains(key); }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  std::uint32_t num_preemptions() const { return num_preemptions_; }

 private:
  Snapshot MakeSnapshot() const {
    Snapshot snapshot;
    std::uint32_t used = 0;
    for (const auto& [key, view] : running_) {
      snapshot.running.push_back(view);
      used += view.num_blocks;
    }
    for (const auto& [key, view] : waiting_) snapshot.waiting.push_back(view);
    EXPECT_LE(used, num_blocks_);
    snapshot.free_blocks = num_blocks_ - used;
    return snapshot;
  }

  void Preempt(std::uint64_t key) {
    ++num_preemptions_;
    auto node = running_.extract(key);
    node.mapped().num_computed = node.mapped().num_blocks = 0;
    waiting_.insert(std::move(node));
  }

  void Apply(const ScheduledItem& item) {
    SequenceView& view = running_.at(item.key);
    view.num_computed += item.num_tokens;
    view.num_blocks += item.new_blocks;
    if (view.num_computed < view.num_tokens) return;
    if (++view.num_tokens == final_length_.at(item.key)) running_.erase(item.key);
  }

  std::mt19937 random_;
  SchedulerLimits limits_;
  std::uint32_t num_blocks_;
  std::uint64_t num_arrived_ = 0;
  std::uint32_t num_preemptions_ = 0;
  std::map<std::uint64_t, SequenceView> running_, waiting_;
  std::map<std::uint64_t, std::uint32_t> final_length_;
};

TEST(Scheduler, FinishesEveryRequestOfARandomRun) {
  std::uint32_t num_preemptions = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Simulation simulation(seed, RandomLimits(random), Uniform(random, 1, 20));
    for (int i = 0; i < 60; ++i) {
      if (Uniform(random, 0, 2) == 0) simulation.Arrive();
      simulation.Step();
    }
    for (int i = 0; !simulation.idle(); ++i) {
      ASSERT_LT(i, 20000) << "seed " << seed << " starves";
      simulation.Step();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    }
    num_preemptions += simulation.num_preemptions();
  }
  EXPECT_GT(num_preemptions, 100u);  // the runs were tight enough
}

TEST(Scheduler, AFloodOfUrgentRequestsDelaysButDoesNotStarve) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Simulation simulation(seed, RandomLimits(random), Uniform(random, 1, 20));
    const std::uint64_t patient = simulation.ArriveAt(200);  // twenty that come later go first
    for (std::uint64_t i = 1; simulation.IsAlive(patient); ++i) {
      ASSERT_LT(i, 5000u) << "seed " << seed << " starves";
      simulation.ArriveAt(10 * i);  // more than can be served
      simulation.Step();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    }
  }
}

TEST(Scheduler, BoundsAStepHoweverLongAPromptJoins) {
  Snapshot snapshot = {.running = {{1, 10, 9, 3}}, .waiting = {{2, 100000, 0, 0}}, .free_blocks = 100000};
  const Decision decision = Schedule(kLimits, snapshot);
  EXPECT_EQ(Text(decision), Text({.preempt = {}, .items = {{1, 1, 0}, {2, 9, 3}}, .admit = {2}}));
}

}  // namespace
}  // namespace trireme::server
