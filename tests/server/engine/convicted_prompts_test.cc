#include "server/engine/convicted_prompts.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme::server {
namespace {

using Prompt = std::vector<std::uint32_t>;

const absl::Time kStart = absl::UnixEpoch();

TEST(ConvictedPrompts, AreRefusedFromTheSecondConvictionOn) {
  ConvictedPrompts prompts;
  EXPECT_FALSE(prompts.Refuse(Prompt{1, 2, 3}, kStart));
  prompts.Add({1, 2, 3}, kStart);
  EXPECT_FALSE(prompts.Refuse(Prompt{1, 2, 3}, kStart));
  prompts.Add({1, 2, 3}, kStart);
  EXPECT_TRUE(prompts.Refuse(Prompt{1, 2, 3}, kStart));
  prompts.Add({1, 2, 3}, kStart);
  EXPECT_TRUE(prompts.Refuse(Prompt{1, 2, 3}, kStart));
}

TEST(ConvictedPrompts, AreNoOthers) {
  ConvictedPrompts prompts;
  for (int i = 0; i < 2; ++i) prompts.Add({1, 2, 3}, kStart);
  for (const Prompt& other : {Prompt{1, 2}, Prompt{1, 2, 3, 4}, Prompt{1, 2, 4}, Prompt{3, 2, 1}, Prompt{}}) {
    EXPECT_FALSE(prompts.Refuse(other, kStart)) << testing::PrintToString(other);
  }
}

TEST(ConvictedPrompts, AreForgottenAfterAWhile) {
  ConvictedPrompts prompts;
  prompts.Add({1}, kStart);
  prompts.Add({1}, kStart + absl::Minutes(1));
  EXPECT_TRUE(prompts.Refuse(Prompt{1}, kStart + ConvictedPrompts::kMemory - absl::Nanoseconds(1)));
  EXPECT_FALSE(prompts.Refuse(Prompt{1}, kStart + ConvictedPrompts::kMemory));
}

TEST(ConvictedPrompts, AreNotKeptWithoutBound) {
  ConvictedPrompts prompts;
  for (int i = 0; i < 2; ++i) prompts.Add({1}, kStart);
  for (std::uint32_t i = 2; i < ConvictedPrompts::kMaxConvictions; ++i) prompts.Add({100 + i}, kStart);
  EXPECT_TRUE(prompts.Refuse(Prompt{1}, kStart));
  prompts.Add({1000}, kStart);
  EXPECT_FALSE(prompts.Refuse(Prompt{1}, kStart));
}

}  // namespace
}  // namespace trireme::server
