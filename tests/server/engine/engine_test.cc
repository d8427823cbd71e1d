// What the engine gives a request that it serves, and what it asks of options and observers, for one, two and three steps
// in flight.
#include "server/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/server/engine/counting_statistics.h"
#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(StepsInFlight, EngineTest, testing::Values(1, 2, 3));

TEST_P(EngineTest, GeneratesWhatTheModelSays) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  for (std::uint32_t length : {1u, 3u, 4u, 5u, 15u, 16u, 17u, 40u}) {
    for (std::uint32_t max_tokens : {1u, 2u, 9u}) {
      const Request request = MakeRequest("a", Prompt(length), max_tokens, length);
      const auto recorder = fake.Submit(request);
      ASSERT_TRUE(recorder->WaitForEnd());
      EXPECT_EQ(recorder->tokens(), Solo(request));
      EXPECT_EQ(recorder->finish()->reason, FinishReason::kLength);
      EXPECT_EQ(recorder->finish()->matched_stop_token_id, std::nullopt);
    }
  }
}

TEST_P(EngineTest, EndsAtAStopToken) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(5), 20);
  const std::vector<std::uint32_t> solo = Solo(request);
  request.stopping.stop_token_ids = {solo[6]};
  request.stopping.eos_token_ids = {solo[9]};
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(solo, 7));  // the stop token is among them
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kStop);
  EXPECT_EQ(recorder->finish()->matched_stop_token_id, solo[6]);
}

TEST_P(EngineTest, EndsAtTheEndOfSequence) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(5), 20);
  const std::vector<std::uint32_t> solo = Solo(request);
  request.stopping.eos_token_ids = {solo[3], solo[8]};
  auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(solo, 4));
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kEos);
  EXPECT_EQ(recorder->finish()->matched_stop_token_id, solo[3]);

  request.stopping.eos_token_ids = {};  // ignored
  recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), solo);
}

TEST_P(EngineTest, SaysStopWhereTheEndOfSequenceIsAStopTokenToo) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(2), 1);
  request.stopping.eos_token_ids = request.stopping.stop_token_ids = {Solo(request)[0]};
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kStop);  // and not kLength, though it is the last one, too
}

TEST_P(EngineTest, StopsWhereTheObserverWantsIt) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const Request request = MakeRequest("a", Prompt(2), 9);
  const auto recorder = std::make_shared<Recorder>(1, /*stops_after=*/3);
  ASSERT_EQ(fake.engine.Submit(request, recorder), absl::OkStatus());
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(Solo(request), 3));
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kStop);
  EXPECT_EQ(recorder->finish()->matched_stop_token_id, std::nullopt);
}

TEST_P(EngineTest, SaysStopWhereTheObserverWantsItAtATokenThatEndsItAnyway) {
  CountingStatistics statistics;
  EngineOverFake fake(options(), {64}, &statistics);
  fake.group.BringUp();
  const Request last = MakeRequest("last token", Prompt(2), 3);
  Request eos = MakeRequest("end of sequence", Prompt(2), 9);
  eos.stopping.eos_token_ids = {Solo(eos)[2]};
  Request stop = MakeRequest("stop token", Prompt(2), 9);
  stop.stopping.stop_token_ids = {Solo(stop)[2]};
  for (const Request& request : {last, eos, stop}) {
    const auto recorder = std::make_shared<Recorder>(1, /*stops_after=*/3);
    ASSERT_EQ(fake.engine.Submit(request, recorder), absl::OkStatus());
    ASSERT_TRUE(recorder->WaitForEnd());
    EXPECT_EQ(recorder->finish()->reason, FinishReason::kStop) << request.id;
    EXPECT_EQ(recorder->finish()->matched_stop_token_id, std::nullopt) << request.id;
  }
  fake.engine.Stop();
  EXPECT_EQ(statistics.ends, (std::map<std::string, std::uint64_t>{{"stop", 3}}));
}

TEST_P(EngineTest, EndsWhenTheContextIsFull) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const Request request = MakeRequest("a", Prompt(60), 100);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(Solo(request), 4));  // 64 in all
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kLength);
}

TEST_P(EngineTest, EndsWhenTheKvCacheIsFull) {
  EngineOverFake fake(options(), {9, 3, 5});  // 12 tokens, and one from which nothing is computed
  fake.group.BringUp();
  const Request request = MakeRequest("a", Prompt(12), 100);
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  EXPECT_EQ(recorder->tokens(), FirstOf(Solo(request), 1));
  EXPECT_EQ(recorder->finish()->reason, FinishReason::kLength);
}

TEST_P(EngineTest, PassesLogprobsOn) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(3), 2);
  request.sampling.logprobs = 5;
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  ASSERT_TRUE(recorder->last().logprob.has_value());
  EXPECT_EQ(recorder->last().logprob->top.size(), 5u);
}

TEST_P(EngineTest, ReportsTimesInOrder) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const auto recorder = fake.Submit(MakeRequest("a", Prompt(3), 3));
  ASSERT_TRUE(recorder->WaitForEnd());
  const RequestTimings timings = recorder->finish()->timings;
  ASSERT_TRUE(timings.first_scheduled.has_value() && timings.first_token.has_value());
  EXPECT_LE(absl::ZeroDuration(), *timings.first_scheduled);
  EXPECT_LE(*timings.first_scheduled, *timings.first_token);
  EXPECT_LE(*timings.first_token, timings.finished);
}

TEST(Engine, MayBeDestroyedBeforeItWasStarted) { Engine engine(SmallEngine(), nullptr); }

// Submits the next request of a chain when one ends, on the engine's thread.
class Chain final : public RequestObserver, public std::enable_shared_from_this<Chain> {
 public:
  Chain(Engine* engine, int left, std::shared_ptr<Recorder> last)
      : engine_(*engine), left_(left), last_(std::move(last)) {}
  void OnPromptLogprobs(std::span<const GeneratedToken>) override {}
  AfterTokens OnTokens(std::uint32_t, std::span<const GeneratedToken>) override { return AfterTokens::kContinue; }
  void OnFinish(std::uint32_t, const Finish&) override {
    const bool is_last = left_ == 0;
    EXPECT_EQ(
        engine_.Submit(MakeRequest("a", {1, 2}, 2), is_last ? std::static_pointer_cast<RequestObserver>(last_)
                                                            : std::make_shared<Chain>(&engine_, left_ - 1, last_)),
        absl::OkStatus());
  }
  void OnError(const absl::Status& status) override { ADD_FAILURE() << status; }

 private:
  Engine& engine_;
  int left_;
  std::shared_ptr<Recorder> last_;
};

TEST_P(EngineTest, LetsObserversCallIt) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const auto last = std::make_shared<Recorder>();
  ASSERT_EQ(fake.engine.Submit(MakeRequest("a", {1, 2}, 2), std::make_shared<Chain>(&fake.engine, 20, last)),
            absl::OkStatus());
  EXPECT_TRUE(last->WaitForEnd());
}

TEST_P(EngineTest, LetsGoOfObserversThatHaveEnded) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  auto recorder = fake.Submit(MakeRequest("a", Prompt(3), 3));
  ASSERT_TRUE(recorder->WaitForEnd());
  ASSERT_TRUE(fake.Submit(MakeRequest("b", Prompt(3), 1))->WaitForEnd());
  EXPECT_EQ(recorder.use_count(), 1);
}

TEST(EngineOptions, AreValidatedByName) {
  EXPECT_EQ(Validate(SmallEngine()), absl::OkStatus());
  const auto message = [](auto change) {
    EngineOptions options = SmallEngine();
    change(options);
    EXPECT_EQ(Validate(options).code(), absl::StatusCode::kInvalidArgument);
    return std::string(Validate(options).message());
  };
  EXPECT_EQ(message([](EngineOptions& o) { o.limits.max_num_seqs = 0; }), "max_num_seqs is 0; expected at least 1");
  EXPECT_THAT(message([](EngineOptions& o) { o.limits.kv_block_tokens = 0; }), HasSubstr("kv_block_tokens"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_steps_in_flight = 0; }), HasSubstr("max_steps_in_flight"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_waiting_sequences = 0; }), HasSubstr("max_waiting_sequences"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_step_stretch = 0.9; }), HasSubstr("max_step_stretch is 0.9"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_step_stretch = std::nan(""); }), HasSubstr("max_step_stretch"));
  EXPECT_THAT(message([](EngineOptions& o) { o.max_model_len = 1; }),
              HasSubstr("max_model_len is 1; expected at least 2"));
  EXPECT_THAT(message([](EngineOptions& o) { o.limits.max_num_batched_tokens = 3; }),
              HasSubstr("max_num_batched_tokens is 3; expected at least max_num_seqs (4)"));
  EXPECT_THAT(message([](EngineOptions& o) { o.limits.max_logit_rows = 3; }),
              HasSubstr("max_logit_rows is 3; expected at least max_num_seqs (4)"));
}

}  // namespace
}  // namespace trireme::server
