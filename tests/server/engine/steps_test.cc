// What the engine sends, step by step, with workers that the test plays itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <span>

#include "base/mutex.h"
#include "server/engine/engine.h"
#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ManualLink final : public StepLink {
 public:
  void Send(const StepCommand& command) override {
    MutexLock lock(mutex_);
    sent_.push_back(command);
    changed_.SignalAll();
  }

  void ExcuseLosses(std::span<const std::uint64_t>) override {}

  // The next step; fails the test if none comes.
  StepCommand Take() {
    MutexLock lock(mutex_);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (sent_.empty()) {
      if (!changed_.WaitUntil(mutex_, deadline) && sent_.empty()) {
        ADD_FAILURE() << "no step was sent";
        return {};
      }
    }
    const StepCommand command = sent_.front();
    sent_.pop_front();
    return command;
  }

  bool empty() {
    MutexLock lock(mutex_);
    return sent_.empty();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<StepCommand> sent_ ABSL_GUARDED_BY(mutex_);
};

// Holds the engine's thread at its end, so that what is submitted meanwhile is there for one and the same step.
class HoldsUp final : public RequestObserver {
 public:
  explicit HoldsUp(std::shared_future<void> until) : until_(std::move(until)) {}
  void OnPromptLogprobs(std::span<const GeneratedToken>) override {}
  AfterTokens OnTokens(std::uint32_t, std::span<const GeneratedToken>) override { return AfterTokens::kContinue; }
  void OnFinish(std::uint32_t, const Finish&) override {
    begun_.set_value();
    until_.wait_for(std::chrono::seconds(30));
  }
  void OnError(const absl::Status& status) override { ADD_FAILURE() << status; }

  void WaitUntilItDoes() {
    EXPECT_EQ(begun_.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  }

 private:
  const std::shared_future<void> until_;
  std::promise<void> begun_;
};

class StepsTest : public testing::Test {
 protected:
  void StartEngine(std::uint32_t max_steps_in_flight) { StartEngine(SmallEngine(max_steps_in_flight)); }
  void StartEngine(const EngineOptions& options) {
    engine_ = std::make_unique<Engine>(options, nullptr);
    engine_->Start(&link_);
    engine_->OnGroupUp({.generation = 7, .num_kv_blocks = {10, 20}});
  }
  std::shared_ptr<Recorder> Submit(Request request) {
    auto recorder = std::make_shared<Recorder>();
    EXPECT_EQ(engine_->Submit(std::move(request), recorder), absl::OkStatus());
    return recorder;
  }
  // Submits all before the next step is sent. Costs step 1.
  std::vector<std::shared_ptr<Recorder>> SubmitTogether(const std::vector<Request>& requests) {
    std::promise<void> submitted;
    const auto holds_up = std::make_shared<HoldsUp>(submitted.get_future().share());
    EXPECT_EQ(engine_->Submit(MakeRequest("first", {1}, 1), holds_up), absl::OkStatus());
    const Admission admission = link_.Take().admissions.at(0);
    Answer(1, {Token(admission.slot, admission.epoch, 1)});
    holds_up->WaitUntilItDoes();  // else the first of `requests` may be taken along with the answer
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (const Request& request : requests) recorders.push_back(Submit(request));
    submitted.set_value();
    return recorders;
  }
  void Answer(std::uint64_t step, std::vector<SlotTokens> slots) {
    engine_->OnStepResult({.number = step, .slots = std::move(slots), .duration = absl::ZeroDuration()});
  }
  static SlotTokens Token(std::uint32_t slot, std::uint64_t epoch, std::uint32_t token) {
    return {.slot = slot, .epoch = epoch, .tokens = {{.token_id = token, .logprob = std::nullopt}}};
  }

  ManualLink link_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(StepsTest, GoFromPromptToDecodes) {
  StartEngine(1);
  Request request = MakeRequest("a", {1, 2, 3, 4, 5}, 3, 42);
  request.sampling.temperature = 0.5f;
  const auto recorder = Submit(request);

  StepCommand step = link_.Take();
  EXPECT_EQ(step.generation, 7u);
  EXPECT_EQ(step.number, 1u);
  EXPECT_THAT(step.releases, IsEmpty());
  ASSERT_EQ(step.admissions.size(), 1u);
  const Admission admission = step.admissions[0];
  EXPECT_THAT(admission.tokens, ElementsAre(1u, 2u, 3u, 4u, 5u));
  EXPECT_EQ(admission.sampling.seed, 42u);
  EXPECT_EQ(admission.sampling.temperature, 0.5f);
  ASSERT_EQ(step.items.size(), 1u);
  EXPECT_EQ(step.items[0].slot, admission.slot);
  EXPECT_EQ(step.items[0].num_tokens, 5u);
  ASSERT_EQ(step.items[0].new_blocks.size(), 2u);  // KV groups
  EXPECT_EQ(step.items[0].new_blocks[0].size(), 2u);
  EXPECT_EQ(step.items[0].new_blocks[1].size(), 2u);
  EXPECT_EQ(engine_->loads().used_kv_blocks, 2u);
  EXPECT_EQ(engine_->loads().total_kv_blocks, 10u);

  Answer(1, {Token(admission.slot, admission.epoch, 50)});
  step = link_.Take();
  EXPECT_EQ(step.number, 2u);
  EXPECT_THAT(step.admissions, IsEmpty());
  EXPECT_EQ(step.items[0].num_tokens, 1u);
  EXPECT_THAT(step.items[0].new_blocks, IsEmpty());

  Answer(2, {Token(admission.slot, admission.epoch, 51)});
  EXPECT_EQ(link_.Take().number, 3u);
  Answer(3, {Token(admission.slot, admission.epoch, 52)});
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_THAT(recorder->tokens(), ElementsAre(50u, 51u, 52u));
  EXPECT_TRUE(link_.empty());  // nothing is computed from the last token

  Submit(MakeRequest("b", {1}, 1));
  step = link_.Take();
  EXPECT_THAT(step.releases, ElementsAre(admission.slot));
  EXPECT_EQ(step.admissions[0].slot, admission.slot);
  EXPECT_GT(step.admissions[0].epoch, admission.epoch);
}

TEST_F(StepsTest, CutAPromptIntoChunksThatSampleOnlyAtTheEnd) {
  StartEngine(1);
  Submit(MakeRequest("a", std::vector<std::uint32_t>(35, 1), 2));
  EXPECT_EQ(link_.Take().items[0].num_tokens, 16u);
  Answer(1, {});
  EXPECT_EQ(link_.Take().items[0].num_tokens, 16u);
  Answer(2, {});
  EXPECT_EQ(link_.Take().items[0].num_tokens, 3u);
}

TEST_F(StepsTest, SendADecodeBeforeItsTokenIsKnown) {
  StartEngine(2);
  Request request = MakeRequest("a", {1, 2, 3}, 3);
  request.stopping.stop_token_ids = {99};
  const auto recorder = Submit(request);
  const Admission admission = link_.Take().admissions[0];
  StepCommand step = link_.Take();  // no result was given
  EXPECT_EQ(step.number, 2u);
  EXPECT_EQ(step.items[0].num_tokens, 1u);

  // It ends with the first token: the second step's is dropped, and its slot may be given to another meanwhile.
  Answer(1, {Token(admission.slot, admission.epoch, 99)});
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(engine_->loads().used_kv_blocks, 0u);
  const auto next = Submit(MakeRequest("b", {4}, 2));
  step = link_.Take();
  EXPECT_THAT(step.releases, ElementsAre(admission.slot));
  ASSERT_EQ(step.admissions[0].slot, admission.slot);
  Answer(2, {Token(admission.slot, admission.epoch, 51)});
  link_.Take();  // the decode of b
  Answer(3, {Token(admission.slot, step.admissions[0].epoch, 60)});
  Answer(4, {Token(admission.slot, step.admissions[0].epoch, 61)});
  ASSERT_TRUE(next->WaitForEnd());
  EXPECT_THAT(next->tokens(), ElementsAre(60u, 61u));
  EXPECT_THAT(recorder->tokens(), ElementsAre(99u));
}

TEST_F(StepsTest, SendNoDecodeBeyondTheLastToken) {
  StartEngine(3);
  const auto recorder = Submit(MakeRequest("a", {1, 2, 3}, 2));
  const Admission admission = link_.Take().admissions[0];
  EXPECT_EQ(link_.Take().number, 2u);
  Answer(1, {Token(admission.slot, admission.epoch, 50)});
  Answer(2, {Token(admission.slot, admission.epoch, 51)});
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_TRUE(link_.empty());
}

TEST_F(StepsTest, PreemptTheLastAndComputeItAnew) {
  StartEngine(1);  // 10 blocks of 4 tokens
  Submit(MakeRequest("old", std::vector<std::uint32_t>(16, 1), 40));
  StepCommand step = link_.Take();
  const Admission old = step.admissions[0];
  Answer(1, {Token(old.slot, old.epoch, 50)});
  link_.Take();  // decodes; holds 5 blocks
  Submit(MakeRequest("young", std::vector<std::uint32_t>(15, 2), 20));
  Answer(2, {Token(old.slot, old.epoch, 51)});
  step = link_.Take();
  ASSERT_EQ(step.admissions.size(), 1u);
  const Admission young = step.admissions[0];
  std::uint64_t number = step.number;
  std::uint32_t given = 0;
  while (step.releases.empty()) {  // both decode until the blocks run out
    ASSERT_LT(number, 30u);
    ++given;
    Answer(number, {Token(old.slot, old.epoch, 60), Token(young.slot, young.epoch, 70 + given)});
    step = link_.Take();
    number = step.number;
  }
  EXPECT_THAT(step.releases, ElementsAre(young.slot));
  EXPECT_THAT(step.admissions, IsEmpty());
  EXPECT_EQ(engine_->loads().preemptions, 1u);
  EXPECT_EQ(engine_->loads().waiting_requests, 1u);

  ASSERT_TRUE(engine_->Abort("old"));
  Answer(number, {Token(old.slot, old.epoch, 60)});
  step = link_.Take();
  ASSERT_EQ(step.admissions.size(), 1u);
  EXPECT_EQ(step.admissions[0].tokens.size(), 15 + given);  // what was generated comes along
  EXPECT_EQ(step.admissions[0].tokens.back(), 70 + given);
}

// A token of a former place may come when its sequence runs again.
TEST_F(StepsTest, DropWhatWasSampledBeforeAPreemption) {
  StartEngine(3);  // 10 blocks of 4 tokens
  const auto young = SubmitTogether({MakeRequest("old", std::vector<std::uint32_t>(16, 1), 10),
                                     MakeRequest("young", std::vector<std::uint32_t>(6, 2), 50)})[1];
  std::deque<StepCommand> in_flight;
  std::map<std::uint32_t, std::uint64_t> epochs;
  const auto take = [&] {
    in_flight.push_back(link_.Take());
    for (const Admission& admission : in_flight.back().admissions) epochs[admission.slot] = admission.epoch;
  };
  const auto answer_first = [&] {
    std::vector<SlotTokens> slots;
    for (const StepItem& item : in_flight.front().items) slots.push_back(Token(item.slot, epochs[item.slot], 5));
    Answer(in_flight.front().number, slots);
    in_flight.pop_front();
  };
  // Until the last token of `old` takes the last block, and evicts `young`. Then nothing can be sent.
  for (int i = 0; i < 3; ++i) take();
  while (in_flight.back().releases.empty() || in_flight.back().number == 2) {
    ASSERT_FALSE(HasFailure());
    answer_first();
    take();
  }
  answer_first();
  const StepItem item_of_young = in_flight.front().items.back();
  const std::uint64_t former_epoch = epochs[item_of_young.slot];
  const std::uint64_t number = in_flight.front().number;
  ASSERT_EQ(in_flight.size(), 2u);
  ASSERT_TRUE(engine_->Abort("old"));
  const StepCommand again = link_.Take();
  ASSERT_EQ(again.admissions.size(), 1u);
  const std::size_t known = young->tokens().size();
  EXPECT_EQ(again.admissions[0].tokens.size(), 6 + known);

  std::vector<SlotTokens> slots;
  for (const StepItem& item : in_flight.front().items) slots.push_back(Token(item.slot, epochs[item.slot], 777));
  EXPECT_EQ(slots.back().epoch, former_epoch);
  Answer(number, slots);
  Answer(number + 1, {});
  Answer(again.number, {Token(again.admissions[0].slot, again.admissions[0].epoch, 778)});
  ASSERT_TRUE(young->WaitForTokens(known + 1));
  EXPECT_EQ(young->tokens().back(), 778u);
  EXPECT_EQ(young->tokens()[known - 1], 5u);
}

Request WithPriority(Request request, int priority) {
  request.priority = priority;
  return request;
}

TEST_F(StepsTest, ServeTheHigherPriorityFirst) {
  EngineOptions options = SmallEngine();
  options.limits.max_num_seqs = 1;
  StartEngine(options);
  SubmitTogether({MakeRequest("a", {10}, 1), WithPriority(MakeRequest("b", {11}, 1), -5), MakeRequest("c", {12}, 1),
                  WithPriority(MakeRequest("d", {13}, 1), 100)});
  for (const std::uint32_t expected : {13u, 10u, 12u, 11u}) {
    const StepCommand step = link_.Take();
    ASSERT_EQ(step.admissions.size(), 1u);
    EXPECT_THAT(step.admissions[0].tokens, ElementsAre(expected));
    Answer(step.number, {Token(step.admissions[0].slot, step.admissions[0].epoch, 1)});
  }
}

TEST_F(StepsTest, TakeBlocksFromTheLowerPriorityThoughItCameEarlier) {
  StartEngine(1);  // 10 blocks of 4 tokens
  SubmitTogether({MakeRequest("low", std::vector<std::uint32_t>(8, 1), 40),
                  WithPriority(MakeRequest("high", std::vector<std::uint32_t>(8, 2), 40), 3)});
  StepCommand step = link_.Take();
  ASSERT_EQ(step.admissions.size(), 2u);
  EXPECT_EQ(step.admissions[0].tokens[0], 2u);
  const Admission high = step.admissions[0], low = step.admissions[1];
  while (step.releases.empty() || step.number == 2) {
    ASSERT_LT(step.number, 30u);
    Answer(step.number, {Token(high.slot, high.epoch, 60), Token(low.slot, low.epoch, 70)});
    step = link_.Take();
  }
  EXPECT_THAT(step.releases, ElementsAre(low.slot));
}

TEST_F(StepsTest, TakeAsMuchOfAPromptAlongAsTheStreamsCanBear) {
  EngineOptions options = SmallEngine();
  options.max_step_stretch = 2;
  StartEngine(options);
  const auto answer = [this](const StepCommand& step, const Admission& stream, absl::Duration duration) {
    engine_->OnStepResult(
        {.number = step.number, .slots = {Token(stream.slot, stream.epoch, 1)}, .duration = duration});
  };
  Submit(MakeRequest("stream", {1}, 50));
  StepCommand step = link_.Take();
  const Admission stream = step.admissions[0];
  Submit(MakeRequest("prompt", std::vector<std::uint32_t>(30, 2), 5));
  answer(step, stream, absl::Milliseconds(10));
  step = link_.Take();  // for want of better knowledge, a token costs 10 ms
  ASSERT_EQ(step.items.size(), 2u);
  EXPECT_EQ(step.items[1].num_tokens, 1u);
  answer(step, stream, absl::Milliseconds(11));
  step = link_.Take();
  EXPECT_EQ(step.items[1].num_tokens, 2u);  // 20 ms are those of 3.6 tokens, at 5.5 ms each
  ASSERT_TRUE(engine_->Abort("stream"));
  answer(step, stream, absl::Milliseconds(12));
  EXPECT_EQ(link_.Take().items[0].num_tokens, 16u);  // nobody is held up
}

TEST_F(StepsTest, BringSuspectsOneAtATimeBesideThoseThatAreCleared) {
  StartEngine(1);
  SubmitTogether({MakeRequest("a", {10}, 9), MakeRequest("b", {11}, 9)});
  StepCommand step = link_.Take();
  ASSERT_EQ(step.admissions.size(), 2u);
  engine_->OnGroupDown(absl::InternalError("rank 0 died"), false);
  engine_->OnGroupUp({.generation = 8, .num_kv_blocks = {10}});
  Submit(MakeRequest("c", {12}, 9));
  step = link_.Take();
  ASSERT_EQ(step.items.size(), 1u);
  const Admission first = step.admissions[0];
  EXPECT_THAT(first.tokens, ElementsAre(10u));
  Answer(1, {Token(first.slot, first.epoch, 1)});
  step = link_.Take();
  ASSERT_EQ(step.items.size(), 2u);
  const Admission second = step.admissions[0];
  EXPECT_THAT(second.tokens, ElementsAre(11u));
  Answer(2, {Token(first.slot, first.epoch, 1), Token(second.slot, second.epoch, 1)});
  step = link_.Take();
  ASSERT_EQ(step.items.size(), 3u);
  EXPECT_THAT(step.admissions[0].tokens, ElementsAre(12u));
}

TEST_F(StepsTest, EndARequestWhoseTokenIsMissing) {
  StartEngine(1);
  const auto recorder = Submit(MakeRequest("a", {1, 2, 3}, 2));
  const Admission admission = link_.Take().admissions[0];
  Answer(1, {Token(admission.slot, admission.epoch + 1, 50)});
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(recorder->status().message()), testing::HasSubstr("step 1"));
  EXPECT_EQ(engine_->loads().used_kv_blocks, 0u);
}

TEST_F(StepsTest, EndARequestThatTheWorkersCannotGoOnWith) {
  StartEngine(2);
  Request request = MakeRequest("a", {1, 2, 3}, 5);
  request.n = 2;
  const auto recorder = Submit(request);
  const StepCommand step = link_.Take();
  link_.Take();
  Answer(1, {{.slot = step.admissions[0].slot,
              .epoch = step.admissions[0].epoch,
              .status = absl::InvalidArgumentError("no token is left to sample")}});
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->status(), absl::InvalidArgumentError("no token is left to sample"));
  EXPECT_EQ(engine_->loads().used_kv_blocks, 0u);
  EXPECT_EQ(engine_->loads().waiting_sequences, 0u);
}

TEST_F(StepsTest, AdmitTheOtherSequencesOnceThePromptIsSent) {
  StartEngine(1);
  Request request = MakeRequest("a", std::vector<std::uint32_t>(21, 1), 5, 42);
  request.n = 3;
  request.stopping.min_tokens = 2;
  request.stopping.stop_token_ids = {9, 4};
  request.stopping.eos_token_ids = {7};
  request.sampling.prompt_logprobs = 0;
  Submit(request);
  StepCommand step = link_.Take();
  ASSERT_EQ(step.admissions.size(), 1u);
  const Admission first = step.admissions[0];
  EXPECT_EQ(first.sample, 0u);
  EXPECT_EQ(first.num_prompt_tokens, 21u);
  EXPECT_EQ(first.min_tokens, 2u);
  EXPECT_THAT(first.ending_token_ids, ElementsAre(4u, 7u, 9u));
  EXPECT_EQ(first.sampling.prompt_logprobs, 0u);
  EXPECT_EQ(first.first_prompt_logprob, 1u);
  // 7 rows of logits to a step: three chunks, of which the last samples.
  for (const std::uint32_t num_logprobs : {7u, 7u, 6u}) {
    EXPECT_EQ(step.items.size(), 1u);
    EXPECT_EQ(step.items[0].num_tokens, 7u);
    SlotTokens told{.slot = first.slot, .epoch = first.epoch};
    told.prompt_tokens.resize(num_logprobs, {.token_id = 1, .logprob = TokenLogprob{}});
    if (num_logprobs == 6) told.tokens = {{.token_id = 50}};
    Answer(step.number, {told});
    step = link_.Take();
  }
  ASSERT_EQ(step.admissions.size(), 2u);
  for (std::uint32_t index = 1; index < 3; ++index) {
    const Admission& admission = step.admissions[index - 1];
    EXPECT_EQ(admission.sample, index);
    EXPECT_EQ(admission.num_computed, 20u);
    EXPECT_EQ(admission.sampling.prompt_logprobs, std::nullopt);
    EXPECT_EQ(step.items[index].num_tokens, 1u);
    EXPECT_EQ(step.items[index].new_blocks[0].size(), 6u);  // five of them are the first's
  }
}

TEST_F(StepsTest, BeginAtOneWithEachGroupAndBringWhatIsKnown) {
  StartEngine(2);
  const auto recorder = Submit(MakeRequest("a", {1, 2, 3}, 9));
  StepCommand step = link_.Take();
  EXPECT_EQ(step.number, 1u);
  Answer(1, {Token(step.admissions[0].slot, step.admissions[0].epoch, 50)});
  EXPECT_EQ(link_.Take().number, 2u);
  EXPECT_EQ(link_.Take().number, 3u);
  engine_->OnGroupDown(absl::InternalError("rank 0 died"), false);
  engine_->OnGroupUp({.generation = 8, .num_kv_blocks = {10}});
  step = link_.Take();
  EXPECT_EQ(step.generation, 8u);
  EXPECT_EQ(step.number, 1u);
  EXPECT_THAT(step.releases, IsEmpty());
  ASSERT_EQ(step.admissions.size(), 1u);
  EXPECT_THAT(step.admissions[0].tokens, ElementsAre(1u, 2u, 3u, 50u));
  EXPECT_EQ(step.admissions[0].num_prompt_tokens, 3u);
  EXPECT_EQ(step.items[0].num_tokens, 4u);
  EXPECT_EQ(recorder->num_ends(), 0);
}

}  // namespace
}  // namespace trireme::server
