// Requests that kill their workers, among others that do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/engine/engine_fixture.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr std::uint32_t kPoison = 5000;  // beyond the fake's vocabulary, so that nobody generates it

struct Submitted {
  Request request;
  std::shared_ptr<Recorder> recorder;
};

class PoisonTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  PoisonTest() : fake_(SmallEngine(GetParam())) {
    fake_.group.BringUp();
    fake_.group.Pause();
  }

  void Submit(Request request) {
    auto recorder = fake_.Submit(request);
    submitted_.push_back({std::move(request), std::move(recorder)});
  }
  // With prompts of 1 to 37 tokens; more than run at a time.
  void SubmitInnocents(std::uint32_t from, std::uint32_t count) {
    for (std::uint32_t i = from; i < from + count; ++i) {
      Submit(MakeRequest("innocent " + std::to_string(i), std::vector<std::uint32_t>(1 + 4 * i, i), 5 + i, i));
    }
  }
  // A poison's end may be told before the next group is up.
  void AwaitGroup() {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (!fake_.engine.loads().group_up && absl::Now() < deadline) absl::SleepFor(absl::Microseconds(100));
  }
  void ExpectAllFinishAsAlone() {
    for (const auto& [request, recorder] : submitted_) {
      ASSERT_TRUE(recorder->WaitForEnd()) << request.id;
      EXPECT_EQ(recorder->status(), absl::OkStatus()) << request.id;
      EXPECT_EQ(recorder->tokens(), Solo(request)) << request.id;
    }
    EXPECT_EQ(fake_.engine.loads().used_kv_blocks, 0u);
  }

  EngineOverFake fake_;
  std::vector<Submitted> submitted_;
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, PoisonTest, testing::Values(1, 2, 3));

void ExpectConvicted(Recorder& recorder) {
  ASSERT_TRUE(recorder.WaitForEnd());
  EXPECT_EQ(recorder.status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(KillsWorkers(recorder.status())) << recorder.status();
  EXPECT_THAT(std::string(recorder.status().message()), HasSubstr("lost 2 times"));
  EXPECT_THAT(std::string(recorder.status().message()), HasSubstr("rank 0 died of token"));
}

TEST_P(PoisonTest, EndsAfterTwoLossesWhileTenOthersFinish) {
  SubmitInnocents(0, 5);
  std::vector<std::uint32_t> prompt(40, 1);
  prompt[37] = kPoison;  // in its third chunk
  const auto poison = fake_.Submit(MakeRequest("poison", prompt, 9));
  SubmitInnocents(5, 5);
  fake_.group.DieOf(kPoison);
  fake_.group.Resume();
  ExpectConvicted(*poison);
  EXPECT_TRUE(poison->tokens().empty());
  ExpectAllFinishAsAlone();
  EXPECT_EQ(fake_.group.generation(), 3u);
}

TEST_P(PoisonTest, EndsWhereItHasGivenTokensBeforeItKills) {
  const Request request = MakeRequest("poison", {1, 2, 3}, 20, 77);
  const std::vector<std::uint32_t> solo = Solo(request);
  SubmitInnocents(0, 3);
  const auto poison = fake_.Submit(request);
  SubmitInnocents(3, 7);
  for (const Submitted& innocent : submitted_) {
    const std::vector<std::uint32_t> said = Solo(innocent.request);
    ASSERT_EQ(std::count(said.begin(), said.end(), solo[7]), 0);
  }
  fake_.group.DieOf(solo[7]);
  fake_.group.Resume();
  ExpectConvicted(*poison);
  EXPECT_EQ(poison->tokens(), std::vector<std::uint32_t>(solo.begin(), solo.begin() + 8));
  ExpectAllFinishAsAlone();
  EXPECT_EQ(fake_.group.generation(), 3u);
}

TEST_P(PoisonTest, SeveralAreFoundOneAfterTheOther) {
  SubmitInnocents(0, 3);
  const auto first = fake_.Submit(MakeRequest("first", {1, kPoison, 2}, 9));
  SubmitInnocents(3, 3);
  const auto second = fake_.Submit(MakeRequest("second", {1, 2, 3, 4, kPoison}, 9));
  SubmitInnocents(6, 3);
  fake_.group.DieOf(kPoison);
  fake_.group.Resume();
  ExpectConvicted(*first);
  ExpectConvicted(*second);
  ExpectAllFinishAsAlone();
  EXPECT_LE(fake_.group.generation(), 5u);
}

TEST_P(PoisonTest, CostsTwoLossesTwiceHoweverOftenItIsSentAndNoneCounts) {
  fake_.group.DieOf(kPoison);
  fake_.group.Resume();
  for (std::uint64_t i = 0; i < 100; ++i) {
    AwaitGroup();
    if (i < 5) SubmitInnocents(static_cast<std::uint32_t>(2 * i), 2);
    const auto poison = fake_.Submit(MakeRequest("poison", {1, kPoison, 2}, 9, /*seed=*/i));
    ASSERT_TRUE(poison->WaitForEnd());
    EXPECT_TRUE(KillsWorkers(poison->status())) << poison->status();
  }
  ExpectAllFinishAsAlone();
  EXPECT_EQ(fake_.group.generation(), 5u);
  EXPECT_THAT(fake_.group.excused(), UnorderedElementsAre(1, 2, 3, 4));
}

TEST_P(PoisonTest, EndsWithItsEqualsThatWait) {
  SubmitInnocents(0, 3);
  std::vector<std::shared_ptr<Recorder>> poisons;
  for (int i = 0; i < 20; ++i) {
    poisons.push_back(fake_.Submit(MakeRequest("poison " + std::to_string(i), {1, kPoison, 2}, 9)));
  }
  SubmitInnocents(3, 5);
  fake_.group.DieOf(kPoison);
  fake_.group.Resume();
  for (const auto& poison : poisons) {
    ASSERT_TRUE(poison->WaitForEnd());
    EXPECT_TRUE(KillsWorkers(poison->status())) << poison->status();
  }
  ExpectAllFinishAsAlone();
  EXPECT_LE(fake_.group.generation(), 5u);
  const std::vector<std::uint64_t> excused = fake_.group.excused();
  EXPECT_EQ(std::set(excused.begin(), excused.end()).size() + 1, fake_.group.generation());
}

TEST_P(PoisonTest, OfManyKindsCostsNoRestartsThatCount) {
  fake_.group.DieOf(kPoison);
  fake_.group.Resume();
  for (std::uint32_t i = 0; i < 10; ++i) {
    AwaitGroup();
    ExpectConvicted(*fake_.Submit(MakeRequest("poison", {i, kPoison}, 9)));
  }
  EXPECT_EQ(fake_.group.generation(), 21u);
  EXPECT_EQ(fake_.group.excused().size(), 20u);
  AwaitGroup();
  EXPECT_EQ(fake_.engine.loads().resumptions, 10u) << "who was convicted was not computed anew";
}

TEST_P(PoisonTest, IsForgottenWhenItsClientGoesAway) {
  const auto poison = fake_.Submit(MakeRequest("poison", {kPoison}, 9));
  while (fake_.engine.loads().running_requests < 1) absl::SleepFor(absl::Milliseconds(1));
  SubmitInnocents(0, 2);  // join it, if steps may still be sent
  fake_.group.TakeDown(absl::InternalError("rank 0 died"));
  fake_.engine.Cancel("poison", poison.get());
  ASSERT_TRUE(poison->WaitForEnd());
  EXPECT_EQ(poison->status().code(), absl::StatusCode::kCancelled);
  fake_.group.DieOf(kPoison);
  fake_.group.BringUp();
  fake_.group.Resume();
  ExpectAllFinishAsAlone();
  EXPECT_EQ(fake_.group.generation(), 2u);
}

}  // namespace
}  // namespace trireme::server
