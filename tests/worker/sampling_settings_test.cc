#include "worker/sampling_settings.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace trireme::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kVocabulary = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

v1::Sampling Plain() {
  v1::Sampling sampling;
  sampling.set_top_p(1);
  sampling.set_typical_p(1);
  sampling.set_repetition_penalty(1);
  return sampling;
}

TEST(SamplingSettings, ThePlainOnesDoNothing) {
  const auto settings = SamplingSettingsFrom(Plain(), kVocabulary);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_TRUE(settings->is_greedy());
  EXPECT_TRUE(settings->keeps_all());
  EXPECT_FALSE(settings->edits_logits(0));
  EXPECT_FALSE(settings->num_logprobs.has_value());
  EXPECT_FALSE(settings->num_prompt_logprobs.has_value());
}

TEST(SamplingSettings, TakeEveryField) {
  v1::Sampling sampling = Plain();
  (*sampling.mutable_logit_bias())[7] = -2.5f;
  sampling.set_repetition_penalty(1.25f);
  sampling.set_frequency_penalty(-0.5f);
  sampling.set_presence_penalty(0.75f);
  sampling.add_bad_words()->add_ids(99);
  sampling.add_bad_words()->add_ids(1);
  sampling.mutable_bad_words(1)->add_ids(2);
  sampling.set_min_tokens(3);
  sampling.add_ending_token_ids(4);
  sampling.add_ending_token_ids(4000);  // is never sampled anyway
  sampling.set_temperature(0.5f);
  sampling.set_top_k(40);
  sampling.set_top_p(0.9f);
  sampling.set_min_p(0.1f);
  sampling.set_typical_p(0.8f);
  sampling.set_seed(~0ull);
  sampling.set_sample(6);
  sampling.set_logprobs(0);
  sampling.set_prompt_logprobs(256);
  const auto settings = SamplingSettingsFrom(sampling, kVocabulary);
  ASSERT_TRUE(settings.ok()) << settings.status();
  ASSERT_EQ(settings->logit_bias.size(), 1u);
  EXPECT_EQ(settings->logit_bias[0].id, 7);
  EXPECT_EQ(settings->logit_bias[0].bias, -2.5f);
  EXPECT_EQ(settings->repetition_penalty, 1.25f);
  EXPECT_EQ(settings->frequency_penalty, -0.5f);
  EXPECT_EQ(settings->presence_penalty, 0.75f);
  EXPECT_THAT(settings->bad_words, ElementsAre(ElementsAre(99), ElementsAre(1, 2)));
  EXPECT_EQ(settings->min_tokens, 3u);
  EXPECT_THAT(settings->ending_token_ids, ElementsAre(4));
  EXPECT_EQ(settings->temperature, 0.5f);
  EXPECT_EQ(settings->top_k, 40u);
  EXPECT_EQ(settings->top_p, 0.9f);
  EXPECT_EQ(settings->min_p, 0.1f);
  EXPECT_EQ(settings->typical_p, 0.8f);
  EXPECT_EQ(settings->seed, ~0ull);
  EXPECT_EQ(settings->sample, 6u);
  EXPECT_EQ(settings->num_logprobs, 0u);
  EXPECT_EQ(settings->num_prompt_logprobs, 256u);
}

TEST(SamplingSettings, EditLogitsOnlyWhileTheyMust) {
  SamplingSettings settings = {.min_tokens = 2, .ending_token_ids = {5}};
  EXPECT_TRUE(settings.edits_logits(1));
  EXPECT_FALSE(settings.edits_logits(2));
  settings.ending_token_ids.clear();
  EXPECT_FALSE(settings.edits_logits(0));
  EXPECT_TRUE(SamplingSettings{.presence_penalty = -1}.edits_logits(9));
  EXPECT_TRUE(SamplingSettings{.bad_words = {{1}}}.edits_logits(9));
}

struct WrongSetting {
  std::function<void(v1::Sampling&)> change;
  std::string message;
};

class WrongSettings : public testing::TestWithParam<WrongSetting> {};

TEST_P(WrongSettings, AreNamedWithTheirValues) {
  v1::Sampling sampling = Plain();
  GetParam().change(sampling);
  const absl::Status status = SamplingSettingsFrom(sampling, kVocabulary).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongSettings,
    testing::ValuesIn(std::vector<WrongSetting>{
        {[](auto& s) { s.set_temperature(-1); }, "temperature is -1; it must be finite and at least 0"},
        {[](auto& s) { s.set_temperature(kNan); }, "temperature is nan"},
        {[](auto& s) { s.set_temperature(kInfinity); }, "temperature is inf"},
        {[](auto& s) { s.set_top_p(0); }, "top_p is 0; it must be in (0, 1]"},
        {[](auto& s) { s.set_top_p(kNan); }, "top_p is nan"},
        {[](auto& s) { s.set_min_p(-0.5f); }, "min_p is -0.5; it must be in [0, 1]"},
        {[](auto& s) { s.set_min_p(1.5f); }, "min_p is 1.5"},
        {[](auto& s) { s.set_min_p(kNan); }, "min_p is nan"},
        {[](auto& s) { s.set_typical_p(0); }, "typical_p is 0; it must be in (0, 1]"},
        {[](auto& s) { s.set_typical_p(2); }, "typical_p is 2"},
        {[](auto& s) { s.set_repetition_penalty(0); }, "repetition_penalty is 0; it must be finite and above 0"},
        {[](auto& s) { s.set_repetition_penalty(kInfinity); }, "repetition_penalty is inf"},
        {[](auto& s) { s.set_frequency_penalty(kNan); }, "frequency_penalty is nan; it must be finite"},
        {[](auto& s) { s.set_presence_penalty(-kInfinity); }, "presence_penalty is -inf; it must be finite"},
        {[](auto& s) { (*s.mutable_logit_bias())[100] = 1; },
         "a token id of logit_bias is 100; it must be below the vocabulary of 100"},
        {[](auto& s) { (*s.mutable_logit_bias())[99] = kInfinity; },
         "logit_bias of token id 99 is inf; it must be finite"},
        {[](auto& s) { s.add_bad_words(); }, "the length of a sequence of bad_words is 0; it must be at least 1"},
        {[](auto& s) { s.add_bad_words()->add_ids(100); }, "a token id of bad_words is 100"},
        {[](auto& s) { s.set_logprobs(257); }, "logprobs is 257; it must be at most 256"},
        {[](auto& s) { s.set_prompt_logprobs(300); }, "prompt_logprobs is 300; it must be at most 256"},
    }));

}  // namespace
}  // namespace trireme::worker
