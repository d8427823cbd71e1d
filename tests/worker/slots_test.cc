#include "worker/slots.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace trireme::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SlotTable MakeTable() {
  return SlotTable({.max_num_seqs = 3,
                    .max_model_len = 10,
                    .max_num_batched_tokens = 8,
                    .max_logit_rows = 4,
                    .kv_block_tokens = 4,
                    .num_kv_blocks = {6},
                    .vocabulary = 100});
}

// An admission that says nothing of sampling is filled in: a prompt, greedy.
v1::Step ParseStep(const std::string& text) {
  v1::Step step;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &step)) << text;
  for (v1::Admit& admit : *step.mutable_admits()) {
    if (admit.has_sampling()) continue;
    admit.set_num_prompt_tokens(static_cast<std::uint32_t>(admit.tokens_size()));
    admit.mutable_sampling()->set_top_p(1);
    admit.mutable_sampling()->set_typical_p(1);
    admit.mutable_sampling()->set_repetition_penalty(1);
  }
  return step;
}

absl::Status Apply(SlotTable& table, const std::string& text) { return table.Apply(ParseStep(text)); }

constexpr char kPlain[] = "sampling { top_p: 1 typical_p: 1 repetition_penalty: 1 }";
constexpr char kPromptLogprobs[] = "sampling { top_p: 1 typical_p: 1 repetition_penalty: 1 prompt_logprobs: 0 }";

// Prompt 5, 6, 7, 8 and output 9 in slot 1, of which the first three go through.
constexpr char kAdmit[] = R"(
  admits {
    slot: 1 epoch: 1 tokens: [5, 6, 7, 8, 9] num_prompt_tokens: 4
    sampling { temperature: 0.5 top_k: 3 top_p: 0.9 typical_p: 1 repetition_penalty: 1 seed: 11 }
  }
  items { slot: 1 num_tokens: 3 new_blocks { blocks: 4 } })";

SlotTable AdmittedTable() {
  SlotTable table = MakeTable();
  EXPECT_TRUE(Apply(table, kAdmit).ok());
  return table;
}

TEST(SlotTable, MakesRowsOfAChunkWithoutSampling) {
  SlotTable table = AdmittedTable();
  const Batch& batch = table.batch();
  EXPECT_THAT(batch.token_ids, ElementsAre(5, 6, 7));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2));
  EXPECT_THAT(batch.logit_row_indices, IsEmpty());
  ASSERT_EQ(batch.sequences[0].size(), 1u);
  EXPECT_EQ(batch.sequences[0][0].num_queries, 3);
  EXPECT_EQ(batch.sequences[0][0].context_length, 0);
  EXPECT_EQ(batch.sequences[0][0].block_table[0], 4);
}

TEST(SlotTable, SamplesWhenTheLastKnownTokenIsComputed) {
  SlotTable table = AdmittedTable();
  ASSERT_TRUE(Apply(table, "items { slot: 1 num_tokens: 2 new_blocks { blocks: 2 } }").ok());
  const Batch& batch = table.batch();
  EXPECT_THAT(batch.token_ids, ElementsAre(8, 9));
  EXPECT_THAT(batch.positions, ElementsAre(3, 4));
  EXPECT_THAT(batch.logit_row_indices, ElementsAre(1));
  ASSERT_EQ(batch.logit_rows.size(), 1u);
  EXPECT_EQ(batch.logit_rows[0].slot, 1u);
  EXPECT_EQ(batch.logit_rows[0].epoch, 1u);
  EXPECT_EQ(batch.logit_rows[0].position(), 5u);
  EXPECT_EQ(batch.logit_rows[0].settings->seed, 11u);
  EXPECT_EQ(batch.logit_rows[0].settings->top_k, 3u);
  EXPECT_EQ(batch.sequences[0][0].block_table[1], 2);
  EXPECT_EQ(batch.sequences[0][0].context_length, 3);
}

TEST(SlotTable, DecodesTheTokenThatWasSampled) {
  SlotTable table = AdmittedTable();
  ASSERT_TRUE(Apply(table, "items { slot: 1 num_tokens: 2 new_blocks { blocks: 2 } }").ok());
  table.Append(table.batch().logit_rows[0], 77);
  ASSERT_TRUE(Apply(table, "items { slot: 1 num_tokens: 1 }").ok());
  EXPECT_THAT(table.batch().token_ids, ElementsAre(77));
  EXPECT_THAT(table.batch().positions, ElementsAre(5));
  EXPECT_THAT(table.batch().logit_row_indices, ElementsAre(0));
}

TEST(SlotTable, PutsSequencesBehindEachOther) {
  SlotTable table = AdmittedTable();
  ASSERT_TRUE(Apply(table, R"(admits { slot: 0 epoch: 9 tokens: [1, 2] }
                              items { slot: 1 num_tokens: 1 }
                              items { slot: 0 num_tokens: 2 new_blocks { blocks: 0 } })")
                  .ok());
  const Batch& batch = table.batch();
  EXPECT_THAT(batch.token_ids, ElementsAre(8, 1, 2));
  EXPECT_EQ(batch.sequences[0][1].query_begin, 1);
  EXPECT_THAT(batch.logit_row_indices, ElementsAre(2));
  EXPECT_EQ(batch.logit_rows[0].slot, 0u);
}

TEST(SlotTable, TellsHistoryAndWhereTheOutputBegins) {
  SlotTable table = AdmittedTable();
  ASSERT_TRUE(Apply(table, "items { slot: 1 num_tokens: 2 new_blocks { blocks: 2 } }").ok());
  const History first = table.batch().logit_rows[0].history;
  EXPECT_THAT(first.tokens, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_EQ(first.num_generated(), 1u);  // it came back with one
  table.Append(table.batch().logit_rows[0], 77);
  ASSERT_TRUE(Apply(table, "items { slot: 1 num_tokens: 1 }").ok());
  EXPECT_THAT(table.batch().logit_rows[0].history.tokens, ElementsAre(5, 6, 7, 8, 9, 77));
  EXPECT_EQ(table.batch().logit_rows[0].history.num_generated(), 2u);
}

TEST(SlotTable, StartsBehindWhatIsComputedAlready) {
  SlotTable table = MakeTable();
  ASSERT_TRUE(Apply(table, std::string("admits { slot: 0 epoch: 1 tokens: [1, 2, 3, 4, 5, 6] num_prompt_tokens: 6 "
                                       "num_computed: 4 ") +
                               kPlain + "} items { slot: 0 num_tokens: 2 new_blocks { blocks: [3, 5] } }")
                  .ok());
  EXPECT_THAT(table.batch().token_ids, ElementsAre(5, 6));
  EXPECT_THAT(table.batch().positions, ElementsAre(4, 5));
  EXPECT_EQ(table.batch().sequences[0][0].context_length, 4);
  EXPECT_EQ(table.batch().sequences[0][0].block_table[0], 3);
  EXPECT_THAT(table.batch().logit_row_indices, ElementsAre(1));
}

// Tokens 1 to 5 with the prompt 1 to 4, of which the log-probabilities of those from index 2 on are wanted.
TEST(SlotTable, WantsLogitsOfRowsThatAPromptTokenFollows) {
  SlotTable table = MakeTable();
  ASSERT_TRUE(Apply(table, std::string("admits { slot: 0 epoch: 1 tokens: [1, 2, 3, 4, 5] num_prompt_tokens: 4 "
                                       "first_prompt_logprob: 2 ") +
                               kPromptLogprobs + "} items { slot: 0 num_tokens: 3 new_blocks { blocks: 0 } }")
                  .ok());
  EXPECT_THAT(table.batch().logit_row_indices, ElementsAre(1, 2));  // tokens 3 and 4 follow
  ASSERT_EQ(table.batch().logit_rows.size(), 2u);
  EXPECT_EQ(table.batch().logit_rows[0].prompt_token, 3);
  EXPECT_EQ(table.batch().logit_rows[1].prompt_token, 4);
  EXPECT_EQ(table.batch().logit_rows[1].position(), 3u);
  EXPECT_EQ(table.batch().logit_rows[1].num_logprobs(), 0u);
  // 5 is output; after it one is sampled.
  ASSERT_TRUE(Apply(table, "items { slot: 0 num_tokens: 2 new_blocks { blocks: 1 } }").ok());
  EXPECT_THAT(table.batch().logit_row_indices, ElementsAre(1));
  EXPECT_TRUE(table.batch().logit_rows[0].is_sampled());
  EXPECT_EQ(table.batch().logit_rows[0].num_logprobs(), std::nullopt);
}

TEST(SlotTable, AReleasedSlotStartsAnew) {
  SlotTable table = AdmittedTable();
  ASSERT_TRUE(Apply(table, R"(released_slots: 1
                              admits { slot: 1 epoch: 2 tokens: 3 }
                              items { slot: 1 num_tokens: 1 new_blocks { blocks: 5 } })")
                  .ok());
  EXPECT_THAT(table.batch().token_ids, ElementsAre(3));
  EXPECT_THAT(table.batch().positions, ElementsAre(0));
  EXPECT_EQ(table.batch().sequences[0][0].block_table[0], 5);
}

TEST(SlotTable, AStepWithoutItemsIsAnEmptyBatch) {
  SlotTable table = AdmittedTable();
  ASSERT_TRUE(Apply(table, "released_slots: 1").ok());
  EXPECT_EQ(table.batch().num_rows(), 0);
  EXPECT_THAT(table.batch().sequences[0], IsEmpty());
}

struct Contradiction {
  std::string step;
  std::string message;
};

class Contradictions : public testing::TestWithParam<Contradiction> {};

TEST_P(Contradictions, AreNamed) {
  SlotTable table = AdmittedTable();
  const absl::Status status = Apply(table, GetParam().step);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

constexpr char kLongPrompt[] = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10";

INSTANTIATE_TEST_SUITE_P(
    All, Contradictions,
    testing::ValuesIn(std::vector<Contradiction>{
        {"released_slots: 3", "slot 3: there are 3 slots"},
        {"released_slots: 0", "slot 0: released, but it is not in use"},
        {"released_slots: [1, 1]", "slot 1: released, but it is not in use"},
        {"admits { slot: 7 epoch: 1 tokens: 1 }", "slot 7: there are 3 slots"},
        {"admits { slot: 1 epoch: 2 tokens: 1 }", "slot 1: admitted, but in use since epoch 1"},
        {"released_slots: 1 admits { slot: 1 epoch: 1 tokens: 1 }",
         "slot 1: admitted at epoch 1, but the last epoch was 1"},
        {"admits { slot: 0 epoch: 1 }", "slot 0: admitted with 0 tokens; there must be 1 to 10"},
        {std::string("admits { slot: 0 epoch: 1 tokens: [") + kLongPrompt + ", 11] }", "admitted with 11 tokens"},
        {"admits { slot: 0 epoch: 1 tokens: [1, 100] }", "slot 0: token id 100 is beyond the vocabulary of 100"},
        {"admits { slot: 0 epoch: 1 tokens: 1 num_prompt_tokens: 1 sampling { temperature: -1 repetition_penalty: 1 } "
         "}",
         "slot 0: temperature is -1; it must be finite and at least 0"},
        {std::string("admits { slot: 0 epoch: 1 tokens: [1, 2] num_prompt_tokens: 3 ") + kPlain + "}",
         "slot 0: 3 of 2 tokens are the prompt"},
        {std::string("admits { slot: 0 epoch: 1 tokens: [1, 2] ") + kPlain + "}",
         "slot 0: 0 of 2 tokens are the prompt"},
        {std::string("admits { slot: 0 epoch: 1 tokens: [1, 2] num_prompt_tokens: 2 num_computed: 2 ") + kPlain + "}",
         "slot 0: admitted with 2 of 2 tokens computed"},
        {std::string("admits { slot: 0 epoch: 1 tokens: [1, 2] num_prompt_tokens: 2 ") + kPromptLogprobs + "}",
         "log-probabilities of the prompt are wanted from token 0 on"},
        {std::string("admits { slot: 0 epoch: 1 tokens: [1, 2, 3, 4] num_prompt_tokens: 4 num_computed: 2 "
                     "first_prompt_logprob: 2 ") +
             kPromptLogprobs + "}",
         "wanted from token 2 on, with 2 computed already"},
        {std::string("admits { slot: 0 epoch: 1 tokens: [1, 2, 3, 4, 5, 6] num_prompt_tokens: 6 "
                     "first_prompt_logprob: 1 ") +
             kPromptLogprobs + "} items { slot: 0 num_tokens: 6 new_blocks { blocks: [0, 1] } }",
         "slot 0: logits of one more row are wanted; a step gives those of at most 4"},
        {"admits { slot: 0 epoch: 1 tokens: [1, 2, 3, 4, 5, 6] num_prompt_tokens: 6 num_computed: 5 " +
             std::string(kPlain) + "} items { slot: 0 num_tokens: 1 new_blocks { blocks: 0 } }",
         "slot 0: 6 tokens need 2 blocks in KV group 0, but it has 1"},
        {"items { slot: 3 num_tokens: 1 }", "slot 3: there are 3 slots"},
        {"items { slot: 0 num_tokens: 1 }", "slot 0: has work, but nothing is admitted to it"},
        {"items { slot: 1 num_tokens: 0 }", "slot 1: 0 tokens are to be computed, but 3 of 5"},
        {"items { slot: 1 num_tokens: 3 }", "slot 1: 3 tokens are to be computed, but 3 of 5"},
        {"items { slot: 1 num_tokens: 1 } items { slot: 1 num_tokens: 1 }", "slot 1: has two items in one step"},
        {"items { slot: 1 num_tokens: 2 }", "slot 1: 5 tokens need 2 blocks in KV group 0, but it has 1"},
        {"items { slot: 1 num_tokens: 1 new_blocks { blocks: 6 } }", "slot 1: block 6 of KV group 0, which has 6"},
        {"items { slot: 1 num_tokens: 1 new_blocks {} new_blocks {} }", "new blocks for 2 KV groups; there are 1"},
        {"items { slot: 1 num_tokens: 1 new_blocks { blocks: [0, 1, 2] } }",
         "more blocks of KV group 0 than 10 tokens"},
        {std::string("admits { slot: 0 epoch: 1 tokens: [") + kLongPrompt +
             "] } items { slot: 0 num_tokens: 9 new_blocks { blocks: [0, 1, 2] } }",
         "slot 0: 9 tokens after 0 of the same step; a step has at most 8"},
    }));

TEST(SlotTable, RefusesToGrowBeyondTheModelsLength) {
  SlotTable table = MakeTable();
  ASSERT_TRUE(Apply(table, std::string("admits { slot: 0 epoch: 1 tokens: [") + kLongPrompt +
                               "] } "
                               "items { slot: 0 num_tokens: 8 new_blocks { blocks: [0, 1] } }")
                  .ok());
  const absl::Status status = Apply(table, "items { slot: 0 num_tokens: 2 new_blocks { blocks: 2 } }");
  EXPECT_THAT(std::string(status.message()), HasSubstr("slot 0: a token would be sampled after the last of 10"));
}

}  // namespace
}  // namespace trireme::worker
