#include "server/coordinator/step_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StepMessages, CarryACommandWhole) {
  const StepCommand command = {.generation = 3,
                               .number = 41,
                               .releases = {2, 5},
                               .admissions = {{.slot = 5,
                                               .epoch = 9,
                                               .tokens = {1, 4000000000u, 7},
                                               .num_prompt_tokens = 2,
                                               .num_computed = 1,
                                               .sampling = {.logit_bias = {{3, -1.5F}, {9, 2}},
                                                            .repetition_penalty = 1.25F,
                                                            .frequency_penalty = -0.5F,
                                                            .presence_penalty = 0.75F,
                                                            .bad_words = {{4}, {5, 6}},
                                                            .temperature = 0.5F,
                                                            .top_k = 40,
                                                            .top_p = 0.25F,
                                                            .min_p = 0.125F,
                                                            .typical_p = 0.875F,
                                                            .seed = ~0ull,
                                                            .logprobs = 0,
                                                            .prompt_logprobs = 2},
                                               .sample = 3,
                                               .min_tokens = 8,
                                               .ending_token_ids = {0, 2},
                                               .first_prompt_logprob = 2},
                                              {.slot = 2, .epoch = 10, .tokens = {8}, .sampling = {}}},
                               .items = {{.slot = 5, .num_tokens = 3, .new_blocks = {{11, 12}, {}}},
                                         {.slot = 1, .num_tokens = 1, .new_blocks = {}}}};
  const worker::v1::Step message = ToMessage(command);
  EXPECT_EQ(message.number(), 41u);
  EXPECT_THAT(message.released_slots(), ElementsAre(2, 5));
  ASSERT_EQ(message.admits_size(), 2);
  const worker::v1::Admit& admit = message.admits(0);
  EXPECT_EQ(admit.slot(), 5u);
  EXPECT_EQ(admit.epoch(), 9u);
  EXPECT_THAT(admit.tokens(), ElementsAre(1, 4000000000u, 7));
  EXPECT_EQ(admit.num_prompt_tokens(), 2u);
  EXPECT_EQ(admit.num_computed(), 1u);
  EXPECT_EQ(admit.first_prompt_logprob(), 2u);
  ASSERT_EQ(admit.sampling().logit_bias_size(), 2);
  EXPECT_EQ(admit.sampling().logit_bias().at(3), -1.5F);
  EXPECT_EQ(admit.sampling().logit_bias().at(9), 2);
  EXPECT_EQ(admit.sampling().repetition_penalty(), 1.25F);
  EXPECT_EQ(admit.sampling().presence_penalty(), 0.75F);
  EXPECT_EQ(admit.sampling().frequency_penalty(), -0.5F);
  ASSERT_EQ(admit.sampling().bad_words_size(), 2);
  EXPECT_THAT(admit.sampling().bad_words(1).ids(), ElementsAre(5, 6));
  EXPECT_EQ(admit.sampling().min_p(), 0.125F);
  EXPECT_EQ(admit.sampling().typical_p(), 0.875F);
  EXPECT_EQ(admit.sampling().sample(), 3u);
  EXPECT_EQ(admit.sampling().min_tokens(), 8u);
  EXPECT_THAT(admit.sampling().ending_token_ids(), ElementsAre(0, 2));
  EXPECT_EQ(admit.sampling().prompt_logprobs(), 2u);
  EXPECT_FALSE(message.admits(1).sampling().has_prompt_logprobs());
  EXPECT_EQ(admit.sampling().temperature(), 0.5F);
  EXPECT_EQ(admit.sampling().top_k(), 40u);
  EXPECT_EQ(admit.sampling().top_p(), 0.25F);
  EXPECT_EQ(admit.sampling().seed(), ~0ull);
  EXPECT_TRUE(admit.sampling().has_logprobs()) << "none besides the chosen token is not the same as none at all";
  EXPECT_FALSE(message.admits(1).sampling().has_logprobs());
  ASSERT_EQ(message.items_size(), 2);
  EXPECT_EQ(message.items(0).slot(), 5u);
  EXPECT_EQ(message.items(0).num_tokens(), 3u);
  ASSERT_EQ(message.items(0).new_blocks_size(), 2);
  EXPECT_THAT(message.items(0).new_blocks(0).blocks(), ElementsAre(11, 12));
  EXPECT_THAT(message.items(0).new_blocks(1).blocks(), IsEmpty());
  EXPECT_EQ(message.items(1).new_blocks_size(), 0);
}

TEST(StepMessages, CarryAResultWhole) {
  worker::v1::StepResult message;
  message.set_step(41);
  message.mutable_duration()->set_seconds(1);
  message.mutable_duration()->set_nanos(250000000);
  worker::v1::SlotTokens& slot = *message.add_slots();
  slot.set_slot(5);
  slot.set_epoch(9);
  slot.add_tokens()->set_token_id(77);
  worker::v1::SampledToken& token = *slot.add_tokens();
  token.set_token_id(78);
  token.set_logprob(-0.5F);
  token.set_token_rank(1);
  token.add_top()->set_token_id(78);
  token.mutable_top(0)->set_logprob(-0.5F);
  slot.add_prompt_tokens()->set_token_id(13);
  slot.mutable_prompt_tokens(0)->set_logprob(-2);
  worker::v1::SlotTokens& failed = *message.add_slots();
  failed.set_slot(6);
  failed.mutable_error()->set_code(3);
  failed.mutable_error()->set_message("no token is left");

  const StepResult result = FromMessage(message);
  EXPECT_EQ(result.number, 41u);
  EXPECT_EQ(result.duration, absl::Milliseconds(1250));
  ASSERT_EQ(result.slots.size(), 2u);
  EXPECT_EQ(result.slots[0].slot, 5u);
  EXPECT_EQ(result.slots[0].epoch, 9u);
  ASSERT_EQ(result.slots[0].tokens.size(), 2u);
  EXPECT_EQ(result.slots[0].tokens[0].token_id, 77u);
  EXPECT_FALSE(result.slots[0].tokens[0].logprob.has_value());
  const GeneratedToken& second = result.slots[0].tokens[1];
  ASSERT_TRUE(second.logprob.has_value());
  EXPECT_EQ(second.logprob->logprob, -0.5F);
  EXPECT_EQ(second.logprob->rank, 1u);
  ASSERT_EQ(second.logprob->top.size(), 1u);
  EXPECT_EQ(second.logprob->top[0].token_id, 78u);
  ASSERT_EQ(result.slots[0].prompt_tokens.size(), 1u);
  EXPECT_EQ(result.slots[0].prompt_tokens[0].token_id, 13u);
  EXPECT_EQ(result.slots[0].prompt_tokens[0].logprob->logprob, -2);
  EXPECT_TRUE(result.slots[0].status.ok());
  EXPECT_TRUE(result.slots[1].tokens.empty());
  EXPECT_EQ(result.slots[1].status, absl::InvalidArgumentError("no token is left"));
}

TEST(StepMessages, AnErrorOfAnyOtherCodeIsOurs) {
  for (const int code : {0, 7, 99, -1}) {
    worker::v1::StepResult message;
    message.add_slots()->mutable_error()->set_code(code);
    message.mutable_slots(0)->mutable_error()->set_message("what");
    EXPECT_EQ(FromMessage(message).slots.at(0).status.code(), absl::StatusCode::kInternal) << code;
  }
}

}  // namespace
}  // namespace trireme::server
