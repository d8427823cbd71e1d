// Many requests at a time: each says what it would say alone, nothing leaks, each ends exactly once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/engine/counting_statistics.h"
#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

std::uint32_t Uniform(std::mt19937& random, std::uint32_t from, std::uint32_t to) {
  return std::uniform_int_distribution<std::uint32_t>(from, to)(random);
}

Request RandomRequest(std::mt19937& random, std::uint32_t id, std::uint32_t max_prompt = 40,
                      std::uint32_t max_tokens = 24) {
  std::vector<std::uint32_t> prompt(Uniform(random, 1, max_prompt));
  for (std::uint32_t& token : prompt) token = Uniform(random, 0, 999);
  return MakeRequest(std::to_string(id), prompt, Uniform(random, 1, max_tokens), random());
}

bool IsPrefix(const std::vector<std::uint32_t>& prefix, const std::vector<std::uint32_t>& whole) {
  return prefix.size() <= whole.size() && std::equal(prefix.begin(), prefix.end(), whole.begin());
}

class WorkloadTest : public testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, WorkloadTest, testing::Values(1, 2));

TEST_P(WorkloadTest, SixteenStreamsSayWhatTheySayAlone) {
  std::mt19937 random(GetParam());
  EngineOptions options = SmallEngine(GetParam());
  options.limits.max_num_seqs = options.limits.max_logit_rows = 16;
  options.limits.max_num_batched_tokens = 24;
  CountingStatistics statistics;
  std::vector<Request> requests;
  std::uint64_t prompt_tokens = 0, generated_tokens = 0;
  {
    EngineOverFake fake(options, {40, 45}, &statistics);  // too few for the growth of all: some are preempted
    fake.group.BringUp();
    fake.group.Pause();
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (std::uint32_t i = 0; i < 16; ++i) {
      requests.push_back(RandomRequest(random, i, 20, 44));
      recorders.push_back(fake.Submit(requests.back()));
    }
    fake.group.Resume();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(recorders[i]->WaitForEnd());
      EXPECT_EQ(recorders[i]->tokens(), Solo(requests[i])) << "request " << i;
      prompt_tokens += requests[i].prompt.size();
      generated_tokens += requests[i].stopping.max_tokens;
    }
    EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
    EXPECT_GT(fake.engine.loads().preemptions, 0u);
  }
  EXPECT_EQ(statistics.first_tokens, 16u);
  EXPECT_EQ(statistics.prompt_tokens, prompt_tokens);
  EXPECT_EQ(statistics.generated_tokens, generated_tokens);
  EXPECT_EQ(statistics.inter_tokens, generated_tokens - 16);
  EXPECT_EQ(statistics.ends, (std::map<std::string, std::uint64_t>{{"length", 16}}));
  EXPECT_GT(statistics.steps, 0u);
}

// Submits, lets each request live for a random while, then cancels, aborts or awaits it.
void Client(EngineOverFake* fake, std::uint32_t first_id, std::uint32_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::uint32_t i = 0; i < count; ++i) {
    Request request = RandomRequest(random, first_id + i);
    const std::uint32_t fate = Uniform(random, 0, 4);
    if (fate == 0) request.deadline = absl::Now() + absl::Microseconds(Uniform(random, 0, 3000));
    const std::vector<std::uint32_t> solo = Solo(request);
    const auto recorder = fake->Submit(request);
    if (Uniform(random, 0, 1) == 1) recorder->WaitForTokens(Uniform(random, 0, 1));
    if (fate == 1) fake->engine.Cancel(request.id, recorder.get());
    if (fate == 2) fake->engine.Abort(request.id);
    if (fate == 1 && Uniform(random, 0, 1) == 1) fake->engine.Cancel(request.id, recorder.get());
    ASSERT_TRUE(recorder->WaitForEnd());
    EXPECT_TRUE(IsPrefix(recorder->tokens(), solo)) << "request " << request.id;
    if (recorder->finish().has_value() && recorder->finish()->reason == FinishReason::kLength) {
      EXPECT_EQ(recorder->tokens(), solo);
    }
  }
}

TEST_P(WorkloadTest, AThousandRequestsWithRandomCancelsLeaveNothingBehind) {
  CountingStatistics statistics;
  EngineOptions options = SmallEngine(GetParam());
  options.limits.max_num_seqs = 6;
  {
    EngineOverFake fake(options, {40}, &statistics);
    fake.group.BringUp();
    std::vector<std::thread> clients;
    for (std::uint32_t i = 0; i < 10; ++i) clients.emplace_back(Client, &fake, i * 100, 100, i);
    for (std::thread& client : clients) client.join();
    const Loads loads = fake.engine.loads();
    EXPECT_EQ(loads.used_kv_blocks, 0u);
    EXPECT_EQ(loads.running_requests, 0u);
    EXPECT_EQ(loads.waiting_requests, 0u);
    // All slots are there, too.
    std::vector<std::shared_ptr<Recorder>> recorders;
    fake.group.Pause();
    for (int i = 0; i < 6; ++i) recorders.push_back(fake.Submit(MakeRequest(std::to_string(i), {1}, 2)));
    fake.group.Resume();
    for (const auto& recorder : recorders) ASSERT_TRUE(recorder->WaitForEnd());
  }
  EXPECT_EQ(statistics.accepted, 1006u);
  EXPECT_EQ(statistics.NumEnds(), 1006u);
  EXPECT_GT(statistics.ends["length"], 0u);
  EXPECT_GT(statistics.ends["cancelled"], 0u);
  EXPECT_GT(statistics.ends["abort"], 0u);
  EXPECT_GT(statistics.ends["deadline_exceeded"], 0u);
  EXPECT_LE(statistics.first_tokens, 1006u);
  EXPECT_EQ(statistics.inter_tokens, statistics.generated_tokens - statistics.first_tokens);
}

TEST(Engine, IsIdleOnlyWhenItHasCountedAllEnds) {
  CountingStatistics statistics;
  EngineOverFake fake(SmallEngine(1), {40}, &statistics);
  fake.group.BringUp();
  for (std::uint64_t i = 1; i <= 200; ++i) {
    const auto recorder = fake.Submit(MakeRequest(std::to_string(i), {1}, 1));
    ASSERT_TRUE(fake.engine.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
    ASSERT_EQ(statistics.accepted, i);
    ASSERT_EQ(statistics.NumEnds(), i);
  }
}

// Cancels each request at about the moment at which it finishes.
void RaceTheFinish(EngineOverFake* fake, std::uint32_t client, std::map<absl::StatusCode, int>* ends) {
  std::mt19937 random(client);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const Request request = MakeRequest(absl::StrCat(client, ".", i), {client, i}, Uniform(random, 1, 3), i);
    const auto recorder = fake->Submit(request);
    if (Uniform(random, 0, 1) == 1) recorder->WaitForTokens(request.stopping.max_tokens - Uniform(random, 0, 1));
    if (Uniform(random, 0, 9) == 0) {
      fake->engine.Abort(request.id);
    } else {
      fake->engine.Cancel(request.id, recorder.get());
    }
    ASSERT_TRUE(recorder->WaitForEnd());
    EXPECT_EQ(recorder->num_ends(), 1);
    EXPECT_TRUE(IsPrefix(recorder->tokens(), Solo(request)));
    ++(*ends)[recorder->status().code()];
  }
}

TEST_P(WorkloadTest, CancelsThatRaceTheFinishEndARequestOnce) {
  EngineOverFake fake(SmallEngine(GetParam()));
  fake.group.BringUp();
  std::vector<std::map<absl::StatusCode, int>> ends(4);
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < 4; ++i) clients.emplace_back(RaceTheFinish, &fake, i, &ends[i]);
  for (std::thread& client : clients) client.join();
  int finished = 0, cancelled = 0;
  for (auto& of_client : ends) {
    finished += of_client[absl::StatusCode::kOk];
    cancelled += of_client[absl::StatusCode::kCancelled];
  }
  EXPECT_EQ(finished + cancelled, 4000);
  EXPECT_GT(finished, 0);
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(fake.engine.loads().used_kv_blocks, 0u);
}

// Nobody meets two losses, so nobody can be to blame for one.
TEST_P(WorkloadTest, EachRequestSaysWhatItSaysAloneHoweverOftenTheGroupIsLost) {
  EngineOverFake fake(SmallEngine(GetParam()), {30}, nullptr, absl::Microseconds(50));
  fake.group.BringUp();
  std::mt19937 random(7);
  std::vector<std::pair<Request, std::shared_ptr<Recorder>>> submitted;
  for (std::uint32_t loss = 0; loss < 40; ++loss) {
    const std::size_t num_older = submitted.size();
    for (std::uint32_t i = 0; i < 10; ++i) {
      Request request = RandomRequest(random, 10 * loss + i);
      auto recorder = fake.Submit(request);
      submitted.emplace_back(std::move(request), std::move(recorder));
    }
    for (std::size_t i = 0; i < num_older; ++i) ASSERT_TRUE(submitted[i].second->WaitForEnd());
    absl::SleepFor(absl::Microseconds(Uniform(random, 0, 3000)));
    fake.group.TakeDown(absl::InternalError("rank 1 died"));
    absl::SleepFor(absl::Microseconds(Uniform(random, 0, 1000)));
    fake.group.BringUp();
  }
  for (const auto& [request, recorder] : submitted) {
    ASSERT_TRUE(recorder->WaitForEnd()) << request.id;
    EXPECT_EQ(recorder->status(), absl::OkStatus()) << request.id;
    EXPECT_EQ(recorder->tokens(), Solo(request)) << request.id;
  }
  EXPECT_GT(fake.engine.loads().resumptions, 10u);
}

// Who kills workers without regard to what they compute may hit the same request twice; it is then thought to be to
// blame. How many are depends on the moments.
TEST_P(WorkloadTest, EachRequestSaysWhatItSaysAloneOrIsThoughtToBeToBlame) {
  EngineOptions options = SmallEngine(GetParam());
  EngineOverFake fake(options, {30}, nullptr, absl::Microseconds(50));
  fake.group.BringUp();
  std::mt19937 random(5);
  std::vector<std::pair<Request, std::shared_ptr<Recorder>>> submitted;
  std::thread chaos([&fake] {
    std::mt19937 moments(6);
    for (int i = 0; i < 40; ++i) {
      absl::SleepFor(absl::Microseconds(Uniform(moments, 0, 4000)));
      fake.group.TakeDown(absl::InternalError("rank 1 died"));
      absl::SleepFor(absl::Microseconds(Uniform(moments, 0, 1000)));
      fake.group.BringUp();
    }
  });
  for (std::uint32_t i = 0; i < 600; ++i) {
    Request request = RandomRequest(random, i);
    auto recorder = std::make_shared<Recorder>();
    const absl::Status status = fake.engine.Submit(request, recorder);
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    if (status.ok()) submitted.emplace_back(std::move(request), std::move(recorder));
    absl::SleepFor(absl::Microseconds(Uniform(random, 0, 300)));
  }
  chaos.join();
  for (const auto& [request, recorder] : submitted) {
    ASSERT_TRUE(recorder->WaitForEnd()) << request.id;
    if (KillsWorkers(recorder->status())) {
      EXPECT_TRUE(IsPrefix(recorder->tokens(), Solo(request))) << request.id;
    } else {
      EXPECT_EQ(recorder->status(), absl::OkStatus()) << request.id;
      EXPECT_EQ(recorder->tokens(), Solo(request)) << request.id;
    }
  }
  fake.engine.Stop();
  for (const auto& [request, recorder] : submitted) EXPECT_EQ(recorder->num_ends(), 1);
  EXPECT_GT(fake.engine.loads().resumptions, 0u);
}

}  // namespace
}  // namespace trireme::server
