// Sequences that find what others have computed. The fake group reads all that is said to be in the KV cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

std::vector<std::uint32_t> Prompt(std::uint32_t length, std::uint32_t first = 100) {
  std::vector<std::uint32_t> prompt(length, 5);
  prompt.front() = first;
  return prompt;
}

class SharedPrefixTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  EngineOptions options() const { return SmallEngine(GetParam()); }  // 4 tokens to a block
  static Finish Run(EngineOverFake& fake, const Request& request) {
    const auto recorder = fake.Submit(request);
    EXPECT_TRUE(recorder->WaitForEnd());
    EXPECT_EQ(recorder->tokens(), Solo(request));
    return recorder->finish().value_or(Finish{});
  }
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, SharedPrefixTest, testing::Values(1, 2, 3));

TEST_P(SharedPrefixTest, IsFoundAfterItsRequestHasEnded) {
  EngineOverFake fake(options(), {64, 70});
  fake.group.BringUp();
  EXPECT_EQ(Run(fake, MakeRequest("a", Prompt(22), 1)).cached_tokens, 0u);
  const std::uint64_t computed = fake.group.num_computed_tokens();
  EXPECT_EQ(Run(fake, MakeRequest("b", Prompt(22), 1, 7)).cached_tokens, 20u);
  EXPECT_EQ(fake.group.num_computed_tokens() - computed, 2u);
  EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
}

TEST_P(SharedPrefixTest, NeverHasTheLastToken) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  for (const std::uint32_t length : {1u, 3u, 4u, 5u, 8u, 9u, 40u}) {
    const Request request = MakeRequest("a", Prompt(length, length), 3);
    EXPECT_EQ(Run(fake, request).cached_tokens, 0u);
    EXPECT_EQ(Run(fake, request).cached_tokens, (length - 1) / 4 * 4) << length;
  }
}

TEST_P(SharedPrefixTest, GoesOnIntoWhatWasGenerated) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  const Request request = MakeRequest("a", Prompt(9), 20, 3);
  Run(fake, request);
  Request next = request;
  const std::vector<std::uint32_t> answer = Solo(request);
  next.prompt.insert(next.prompt.end(), answer.begin(), answer.end());  // the next turn of a conversation
  next.prompt.push_back(1);
  EXPECT_GE(Run(fake, next).cached_tokens, 24u);  // the 29th, at least, was not computed
}

TEST_P(SharedPrefixTest, IsKeptFromOtherSalts) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(21), 2);
  request.cache_salt = "tenant 1";
  EXPECT_EQ(Run(fake, request).cached_tokens, 0u);
  EXPECT_EQ(Run(fake, request).cached_tokens, 20u);
  request.cache_salt = "tenant 2";
  EXPECT_EQ(Run(fake, request).cached_tokens, 0u);
  request.cache_salt.clear();
  EXPECT_EQ(Run(fake, request).cached_tokens, 0u);
}

TEST_P(SharedPrefixTest, IsGoneWithTheGroup) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Run(fake, MakeRequest("a", Prompt(21), 2));
  fake.group.TakeDown(absl::InternalError("rank 0 died"));
  fake.group.BringUp();
  EXPECT_EQ(Run(fake, MakeRequest("a", Prompt(21), 2)).cached_tokens, 0u);
}

TEST_P(SharedPrefixTest, IsOverwrittenWhereBlocksAreScarce) {
  EngineOverFake fake(options(), {10});
  fake.group.BringUp();
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (const std::uint32_t first : {1u, 2u, 3u}) Run(fake, MakeRequest("a", Prompt(25, first), 5, round));
  }
  EXPECT_EQ(Run(fake, MakeRequest("a", Prompt(25, 3), 5)).cached_tokens, 24u);
  EXPECT_EQ(Run(fake, MakeRequest("a", Prompt(25, 1), 5)).cached_tokens, 0u);
}

TEST_P(SharedPrefixTest, IsWaitedForWithoutHoldingUpWhoComesBehind) {
  EngineOverFake fake(options());
  Request request = MakeRequest("a", Prompt(40), 2);
  request.n = 6;                         // those that wait for its prompt would fill all places
  request.sampling.prompt_logprobs = 0;  // so that its chunks leave room in a step
  fake.group.BringUp();
  fake.group.Pause();
  const auto parallel = fake.Submit(request);
  const auto other = fake.Submit(MakeRequest("b", Prompt(2, 9), 1));
  fake.group.Resume();
  ASSERT_TRUE(parallel->WaitForEnd());
  ASSERT_TRUE(other->WaitForEnd());
  EXPECT_LT(*other->finish()->timings.first_token, *parallel->finish()->timings.first_token);
}

TEST_P(SharedPrefixTest, IsNeitherFoundNorWaitedForWhenCachingIsOff) {
  EngineOptions off = options();
  off.prefix_caching = false;
  EngineOverFake fake(off);
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(21), 2);
  request.n = 3;
  for (int i = 0; i < 2; ++i) {
    const auto recorder = fake.Submit(request);
    ASSERT_TRUE(recorder->WaitForEnd());
    EXPECT_EQ(recorder->finish()->cached_tokens, 0u);
    for (std::uint32_t index = 0; index < 3; ++index) EXPECT_EQ(recorder->tokens(index), Solo(request, index));
  }
  EXPECT_GE(fake.group.num_computed_tokens(), 2u * 3 * 21);
}

TEST_P(SharedPrefixTest, IsComputedOnceForAllSequencesOfARequest) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  Request request = MakeRequest("a", Prompt(41), 1);
  request.n = 4;
  const auto recorder = fake.Submit(request);
  ASSERT_TRUE(recorder->WaitForEnd());
  for (std::uint32_t index = 0; index < 4; ++index) EXPECT_EQ(recorder->tokens(index), Solo(request, index));
  EXPECT_EQ(fake.group.num_computed_tokens(), 41u + 3 * 1);
  EXPECT_EQ(recorder->finish(3)->cached_tokens, 0u);  // the request's own work is not a gift
}

TEST_P(SharedPrefixTest, LetsOthersPassWhoseOwnIsBeingComputed) {
  EngineOverFake fake(options());
  fake.group.BringUp();
  fake.group.Pause();
  Request first = MakeRequest("a", Prompt(50), 3);
  first.n = 2;
  const auto recorder = fake.Submit(first);
  const Request other = MakeRequest("b", {1, 2}, 3);
  const auto passing = fake.Submit(other);
  fake.group.Resume();
  ASSERT_TRUE(recorder->WaitForEnd());
  ASSERT_TRUE(passing->WaitForEnd());
  EXPECT_EQ(recorder->tokens(1), Solo(first, 1));
  EXPECT_EQ(passing->tokens(), Solo(other));
}

TEST_P(SharedPrefixTest, IsFoundAgainAfterAPreemption) {
  EngineOptions tight = options();
  std::uint64_t computed[2];
  for (const bool caching : {false, true}) {
    tight.prefix_caching = caching;
    EngineOverFake fake(tight, {14});
    fake.group.BringUp();
    fake.group.Pause();
    std::vector<Request> requests;
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (std::uint32_t i = 0; i < 4; ++i) {
      requests.push_back(MakeRequest(std::to_string(i), Prompt(10, i), 30, i));
      recorders.push_back(fake.Submit(requests.back()));
    }
    fake.group.Resume();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(recorders[i]->WaitForEnd());
      EXPECT_EQ(recorders[i]->tokens(), Solo(requests[i]));
    }
    EXPECT_GT(fake.engine.loads().preemptions, 0u);
    EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
    computed[caching] = fake.group.num_computed_tokens();
  }
  EXPECT_LT(computed[1], computed[0]);
}

// ---- Random workloads.

std::uint32_t Uniform(std::mt19937& random, std::uint32_t from, std::uint32_t to) {
  return std::uniform_int_distribution<std::uint32_t>(from, to)(random);
}

// Prompts that begin alike, often.
Request RandomRequest(std::mt19937& random, std::uint32_t id) {
  std::vector<std::uint32_t> prompt = Prompt(Uniform(random, 1, 40), Uniform(random, 0, 2));
  if (prompt.size() > 9) prompt[9] = Uniform(random, 0, 2);
  Request request = MakeRequest(std::to_string(id), prompt, Uniform(random, 1, 20), Uniform(random, 0, 3));
  request.n = Uniform(random, 0, 2) == 0 ? Uniform(random, 2, 5) : 1;
  if (Uniform(random, 0, 3) == 0) request.cache_salt = "b";
  if (Uniform(random, 0, 4) == 0) request.sampling.prompt_logprobs = 1;
  return request;
}

TEST_P(SharedPrefixTest, ChangesNoTokenAndLeavesNothingBehind) {
  for (const bool caching : {true, false}) {
    EngineOptions varied = options();
    varied.prefix_caching = caching;
    varied.limits.max_num_seqs = 6;
    EngineOverFake fake(varied, {27, 31});
    fake.group.BringUp();
    std::mt19937 random(GetParam());
    fake.group.Pause();
    std::vector<Request> requests;
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (std::uint32_t i = 0; i < 150; ++i) {
      requests.push_back(RandomRequest(random, i));
      recorders.push_back(fake.Submit(requests.back()));
    }
    fake.group.Resume();
    std::uint32_t cached_tokens = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(recorders[i]->WaitForEnd()) << i;
      ASSERT_EQ(recorders[i]->status(), absl::OkStatus());
      for (std::uint32_t index = 0; index < requests[i].n; ++index) {
        EXPECT_EQ(recorders[i]->tokens(index), Solo(requests[i], index)) << "request " << i << ", index " << index;
      }
      cached_tokens += recorders[i]->finish()->cached_tokens;
    }
    EXPECT_EQ(cached_tokens > 0, caching);
    EXPECT_GT(fake.engine.loads().preemptions, 0u);
    EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
  }
}

// Submits, lets each request live for a random while, then cancels, aborts or awaits it.
void Client(EngineOverFake* fake, std::uint32_t first_id, std::uint32_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::uint32_t i = 0; i < count; ++i) {
    Request request = RandomRequest(random, first_id + i);
    const std::uint32_t fate = Uniform(random, 0, 5);
    if (fate == 0) request.deadline = absl::Now() + absl::Microseconds(Uniform(random, 0, 3000));
    if (fate == 1) request.time_limit = absl::Microseconds(Uniform(random, 0, 3000));
    const auto recorder = fake->Submit(request);
    if (Uniform(random, 0, 1) == 1) recorder->WaitForTokens(1, Uniform(random, 0, request.n - 1));
    if (fate == 2) fake->engine.Cancel(request.id, recorder.get());
    if (fate == 3) fake->engine.Abort(request.id);
    ASSERT_TRUE(recorder->WaitForEnd());
    for (std::uint32_t index = 0; index < request.n; ++index) {
      const std::vector<std::uint32_t> tokens = recorder->tokens(index), solo = Solo(request, index);
      EXPECT_TRUE(tokens.size() <= solo.size() && std::equal(tokens.begin(), tokens.end(), solo.begin()));
      const std::optional<Finish> finish = recorder->finish(index);
      if (finish.has_value() && finish->reason == FinishReason::kLength) {
        EXPECT_EQ(tokens, solo);
      }
    }
  }
}

TEST_P(SharedPrefixTest, SurvivesRandomCancels) {
  EngineOptions varied = options();
  varied.limits.max_num_seqs = 6;
  EngineOverFake fake(varied, {40});
  fake.group.BringUp();
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < 8; ++i) clients.emplace_back(Client, &fake, i * 100, 100, i);
  for (std::thread& client : clients) client.join();
  const Loads loads = fake.engine.loads();
  EXPECT_EQ(loads.used_kv_blocks, 0u);
  EXPECT_EQ(loads.running_sequences, 0u);
  EXPECT_EQ(loads.waiting_sequences, 0u);
  EXPECT_TRUE(fake.engine.WaitUntilIdle(absl::Now()));
}

}  // namespace
}  // namespace trireme::server
