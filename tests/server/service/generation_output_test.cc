#include "server/service/generation_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/server/service/test_model.h"

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

std::shared_ptr<const Tokenizer> TestTokenizer() {
  static const ServedModel* const model = new ServedModel(TextTestModel());
  return model->text.tokenizer();
}

GenerationOutput::Options WithText(bool is_stream = true) {
  return {.request_id = "r", .num_prompt_tokens = 5, .seed = 9, .is_stream = is_stream, .tokenizer = TestTokenizer()};
}

std::vector<GeneratedToken> Tokens(const std::vector<std::uint32_t>& ids) {
  std::vector<GeneratedToken> tokens;
  for (const std::uint32_t id : ids) tokens.push_back({.token_id = id, .logprob = std::nullopt});
  return tokens;
}

std::vector<std::uint32_t> IdsOf(const google::protobuf::RepeatedField<std::uint32_t>& ids) {
  return {ids.begin(), ids.end()};
}

TEST(GenerationOutput, SumsDeltasToTheWholeHoweverTheyAreCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    GenerationOutput output(WithText());
    std::vector<std::uint32_t> ids, chunk_ids;
    std::string text;
    const auto take = [&] {
      const v1::GenerateResponse response = output.TakeChunk();
      EXPECT_EQ(response.request_id(), "r");
      text += response.chunk().text();
      for (const std::uint32_t id : response.chunk().token_ids()) chunk_ids.push_back(id);
      EXPECT_EQ(response.chunk().usage().prompt_tokens(), 5u);
      EXPECT_EQ(response.chunk().usage().completion_tokens(), chunk_ids.size());
    };
    for (int i = 0; i < 40; ++i) {
      ids.push_back(random() % kTestVocabulary);  // mostly no valid UTF-8
      output.Add(Tokens({ids.back()}));
      if (random() % 3 == 0) take();
    }
    output.End();
    if (output.has_delta()) take();
    const v1::Completion completion = output.TakeComplete({}).complete().completions(0);
    EXPECT_EQ(text, completion.text());
    EXPECT_EQ(text, TestTokenizer()->Decode(ids, /*skip_special=*/true));
    EXPECT_EQ(chunk_ids, ids);
    EXPECT_THAT(IdsOf(completion.token_ids()), ElementsAreArray(ids));
  }
}

TEST(GenerationOutput, SaysTheSameInOneAnswer) {
  GenerationOutput stream(WithText()), single(WithText(/*is_stream=*/false));
  const std::vector<std::uint32_t> ids = {476, 462, 194, 189, 487, 190};
  stream.Add(Tokens(ids));
  single.Add(Tokens(ids));
  EXPECT_FALSE(single.has_delta());
  stream.End();
  single.End();
  stream.TakeChunk();
  EXPECT_EQ(stream.TakeComplete({}).SerializeAsString(), single.TakeComplete({}).SerializeAsString());
}

TEST(GenerationOutput, GivesOutHeldBackBytesAtTheEnd) {
  GenerationOutput output(WithText());
  const std::vector<std::uint32_t> emoji = *TestTokenizer()->EncodeIds("\xf0\x9f\x98\x80", false);
  ASSERT_GT(emoji.size(), 1u);
  output.Add(Tokens({emoji.front()}));
  EXPECT_EQ(output.TakeChunk().chunk().text(), "");
  EXPECT_FALSE(output.has_delta());
  output.End();
  ASSERT_TRUE(output.has_delta());
  EXPECT_EQ(output.TakeChunk().chunk().text(), "\xef\xbf\xbd");
}

TEST(GenerationOutput, LeavesOutTheTextOfStopTokensButNotTheirIds) {
  GenerationOutput::Options options = WithText(/*is_stream=*/false);
  std::vector<std::uint32_t> ids = *TestTokenizer()->EncodeIds("a", false);
  ids.push_back(TestTokenizer()->EncodeIds("b", false)->front());
  options.stop_token_ids = {ids.back()};
  GenerationOutput output(options);
  output.Add(Tokens(ids));
  output.End();
  const v1::Completion completion =
      output.TakeComplete({.reason = FinishReason::kStop, .matched_stop_token_id = ids.back(), .timings = {}})
          .complete()
          .completions(0);
  EXPECT_EQ(completion.text(), "a");
  EXPECT_THAT(IdsOf(completion.token_ids()), ElementsAreArray(ids));
  EXPECT_EQ(completion.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(completion.matched_stop_token_id(), ids.back());
}

TEST(GenerationOutput, ShowsSpecialTokensOnlyIfAskedTo) {
  for (const bool skip : {true, false}) {
    GenerationOutput::Options options = WithText(/*is_stream=*/false);
    options.skip_special_tokens = skip;
    GenerationOutput output(options);
    output.Add(Tokens({507}));
    output.End();
    EXPECT_EQ(output.TakeComplete({}).complete().completions(0).text(), skip ? "" : "<|im_end|>");
  }
}

TEST(GenerationOutput, TellsLogprobsOncePerToken) {
  const GeneratedToken token{.token_id = 64,
                             .logprob = TokenLogprob{.logprob = -1.5f, .rank = 2, .top = {{65, -0.5f}, {64, -1.5f}}}};
  for (const bool is_stream : {true, false}) {
    GenerationOutput output(WithText(is_stream));
    output.Add({&token, 1});
    output.End();
    google::protobuf::RepeatedPtrField<v1::TokenLogprob> in_chunk;
    if (is_stream) in_chunk = output.TakeChunk().chunk().logprobs();
    const v1::Completion completion = output.TakeComplete({}).complete().completions(0);
    EXPECT_EQ(completion.logprobs_size(), is_stream ? 0 : 1);
    const v1::TokenLogprob& logprob = is_stream ? in_chunk.at(0) : completion.logprobs(0);
    EXPECT_EQ(logprob.token_id(), 64u);
    EXPECT_EQ(logprob.token(), TestTokenizer()->TokenBytes(64));
    EXPECT_EQ(logprob.logprob(), -1.5f);
    EXPECT_EQ(logprob.rank(), 2u);
    ASSERT_EQ(logprob.top_size(), 2);
    EXPECT_EQ(logprob.top(0).token_id(), 65u);
    EXPECT_EQ(logprob.top(0).logprob(), -0.5f);
  }
}

TEST(GenerationOutput, HasNoTextWithoutATokenizer) {
  GenerationOutput output({.request_id = "r"});
  output.Add(Tokens({1, 2}));
  output.End();
  const v1::Chunk chunk = output.TakeChunk().chunk();
  EXPECT_EQ(chunk.text(), "");
  EXPECT_THAT(IdsOf(chunk.token_ids()), ElementsAre(1, 2));
}

TEST(GenerationOutput, TellsSeedUsageAndTimings) {
  GenerationOutput output(WithText(/*is_stream=*/false));
  output.End();
  Finish finish{.reason = FinishReason::kAborted, .matched_stop_token_id = std::nullopt, .timings = {}};
  finish.timings.first_scheduled = absl::Milliseconds(1250);
  finish.timings.finished = absl::Seconds(3);
  const v1::Complete complete = output.TakeComplete(finish).complete();
  EXPECT_EQ(complete.seed(), 9u);
  EXPECT_EQ(complete.usage().prompt_tokens(), 5u);
  EXPECT_EQ(complete.usage().completion_tokens(), 0u);
  EXPECT_EQ(complete.timings().first_scheduled().seconds(), 1);
  EXPECT_EQ(complete.timings().first_scheduled().nanos(), 250'000'000);
  EXPECT_FALSE(complete.timings().has_first_token());
  EXPECT_EQ(complete.timings().finished().seconds(), 3);
  EXPECT_EQ(complete.completions(0).finish_reason(), v1::FINISH_REASON_ABORTED);
  EXPECT_THAT(IdsOf(complete.completions(0).token_ids()), IsEmpty());
}

TEST(GenerationOutput, CountsWhatWaits) {
  GenerationOutput output(WithText());
  EXPECT_EQ(output.num_unread_bytes(), 0u);
  output.Add(Tokens({64, 65}));
  const std::size_t before = output.num_unread_bytes();
  EXPECT_GT(before, 2u);
  output.TakeChunk();
  EXPECT_EQ(output.num_unread_bytes(), 0u);
}

}  // namespace
}  // namespace trireme::server
