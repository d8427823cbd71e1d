#include "server/service/generation_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

#include "absl/strings/match.h"
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

OutputPlan WithText(bool is_stream = true) {
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
      output.Add(0, Tokens({ids.back()}));
      if (random() % 3 == 0) take();
    }
    output.End(0, {});
    if (output.has_delta()) take();
    const v1::Completion completion = output.TakeComplete().complete().completions(0);
    EXPECT_EQ(text, completion.text());
    EXPECT_EQ(text, TestTokenizer()->Decode(ids, /*skip_special=*/true));
    EXPECT_EQ(chunk_ids, ids);
    EXPECT_THAT(IdsOf(completion.token_ids()), ElementsAreArray(ids));
  }
}

TEST(GenerationOutput, SaysTheSameInOneAnswer) {
  GenerationOutput stream(WithText()), single(WithText(/*is_stream=*/false));
  const std::vector<std::uint32_t> ids = {476, 462, 194, 189, 487, 190};
  stream.Add(0, Tokens(ids));
  single.Add(0, Tokens(ids));
  EXPECT_FALSE(single.has_delta());
  stream.End(0, {});
  single.End(0, {});
  stream.TakeChunk();
  EXPECT_EQ(stream.TakeComplete().SerializeAsString(), single.TakeComplete().SerializeAsString());
}

TEST(GenerationOutput, GivesOutHeldBackBytesAtTheEnd) {
  GenerationOutput output(WithText());
  const std::vector<std::uint32_t> emoji = *TestTokenizer()->EncodeIds("\xf0\x9f\x98\x80", false);
  ASSERT_GT(emoji.size(), 1u);
  output.Add(0, Tokens({emoji.front()}));
  EXPECT_EQ(output.TakeChunk().chunk().text(), "");
  EXPECT_FALSE(output.has_delta());
  output.End(0, {});
  ASSERT_TRUE(output.has_delta());
  EXPECT_EQ(output.TakeChunk().chunk().text(), "\xef\xbf\xbd");
}

TEST(GenerationOutput, LeavesOutTheTextOfStopTokensButNotTheirIds) {
  OutputPlan plan = WithText(/*is_stream=*/false);
  std::vector<std::uint32_t> ids = *TestTokenizer()->EncodeIds("a", false);
  ids.push_back(TestTokenizer()->EncodeIds("b", false)->front());
  plan.stop_token_ids = {ids.back()};
  GenerationOutput output(plan);
  output.Add(0, Tokens(ids));
  output.End(0, {.reason = FinishReason::kStop, .matched_stop_token_id = ids.back(), .timings = {}});
  const v1::Completion completion = output.TakeComplete().complete().completions(0);
  EXPECT_EQ(completion.text(), "a");
  EXPECT_THAT(IdsOf(completion.token_ids()), ElementsAreArray(ids));
  EXPECT_EQ(completion.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(completion.matched_stop_token_id(), ids.back());
}

TEST(GenerationOutput, ShowsSpecialTokensOnlyIfAskedTo) {
  for (const bool skip : {true, false}) {
    OutputPlan plan = WithText(/*is_stream=*/false);
    plan.skip_special_tokens = skip;
    GenerationOutput output(plan);
    output.Add(0, Tokens({507}));
    output.End(0, {});
    EXPECT_EQ(output.TakeComplete().complete().completions(0).text(), skip ? "" : "<|im_end|>");
  }
}

TEST(GenerationOutput, TellsLogprobsOncePerToken) {
  const GeneratedToken token{.token_id = 64,
                             .logprob = TokenLogprob{.logprob = -1.5f, .rank = 2, .top = {{65, -0.5f}, {64, -1.5f}}}};
  for (const bool is_stream : {true, false}) {
    GenerationOutput output(WithText(is_stream));
    output.Add(0, {&token, 1});
    output.End(0, {});
    google::protobuf::RepeatedPtrField<v1::TokenLogprob> in_chunk;
    if (is_stream) in_chunk = output.TakeChunk().chunk().logprobs();
    const v1::Completion completion = output.TakeComplete().complete().completions(0);
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
  output.Add(0, Tokens({1, 2}));
  output.End(0, {});
  const v1::Chunk chunk = output.TakeChunk().chunk();
  EXPECT_EQ(chunk.text(), "");
  EXPECT_THAT(IdsOf(chunk.token_ids()), ElementsAre(1, 2));
}

TEST(GenerationOutput, TellsSeedUsageAndTimings) {
  GenerationOutput output(WithText(/*is_stream=*/false));
  Finish finish{.reason = FinishReason::kAborted, .matched_stop_token_id = std::nullopt, .timings = {}};
  finish.timings.first_scheduled = absl::Milliseconds(1250);
  finish.timings.finished = absl::Seconds(3);
  finish.cached_tokens = 4;
  output.End(0, finish);
  const v1::Complete complete = output.TakeComplete().complete();
  EXPECT_EQ(complete.seed(), 9u);
  EXPECT_EQ(complete.usage().prompt_tokens(), 5u);
  EXPECT_EQ(complete.usage().completion_tokens(), 0u);
  EXPECT_EQ(complete.usage().cached_tokens(), 4u);
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
  output.Add(0, Tokens({64, 65}));
  const std::size_t before = output.num_unread_bytes();
  EXPECT_GT(before, 2u);
  output.TakeChunk();
  EXPECT_EQ(output.num_unread_bytes(), 0u);
}

std::shared_ptr<const StopStrings> Stops(std::vector<std::string> strings) {
  return std::make_shared<const StopStrings>(std::move(strings));
}

std::vector<GeneratedToken> TextTokens(const std::string& text) {
  return Tokens(*TestTokenizer()->EncodeIds(text, false));
}

TEST(StopStringOutput, EndsTheTextAndKeepsTheTokens) {
  for (const bool includes_stop : {false, true}) {
    OutputPlan plan = WithText();
    plan.stop_strings = Stops({"lo th"});
    plan.includes_stop = includes_stop;
    GenerationOutput output(plan);
    const std::vector<GeneratedToken> tokens = TextTokens("Hello there, you");
    std::size_t num_added = 0;
    AfterTokens wish = AfterTokens::kContinue;
    while (wish == AfterTokens::kContinue && num_added < tokens.size()) wish = output.Add(0, {&tokens[num_added++], 1});
    EXPECT_EQ(wish, AfterTokens::kStop);
    EXPECT_LT(num_added, tokens.size());
    output.End(0, {.reason = FinishReason::kStop, .matched_stop_token_id = std::nullopt, .timings = {}});
    EXPECT_EQ(output.TakeChunk().chunk().text(), includes_stop ? "Hello th" : "Hel");
    const v1::Completion completion = output.TakeComplete().complete().completions(0);
    EXPECT_EQ(completion.text(), includes_stop ? "Hello th" : "Hel");
    EXPECT_EQ(completion.token_ids_size(), static_cast<int>(num_added));
    EXPECT_EQ(completion.finish_reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(completion.matched_stop_string(), "lo th");
  }
}

TEST(StopStringOutput, LeavesOutTokensThatComeAfter) {
  OutputPlan plan = WithText(/*is_stream=*/false);
  plan.stop_strings = Stops({"b"});
  GenerationOutput output(plan);
  std::vector<GeneratedToken> tokens;
  for (const char* letter : {"a", "b", "c"}) tokens.push_back(TextTokens(letter).front());
  EXPECT_EQ(output.Add(0, tokens), AfterTokens::kStop);
  EXPECT_EQ(output.Add(0, TextTokens("d")), AfterTokens::kStop);
  output.End(0, {});
  const v1::Complete complete = output.TakeComplete().complete();
  EXPECT_EQ(complete.completions(0).text(), "a");
  EXPECT_EQ(complete.usage().completion_tokens(), 2u);
}

TEST(StopStringOutput, HoldsBackNoMoreThanABeginning) {
  OutputPlan plan = WithText();
  plan.stop_strings = Stops({"bcd"});
  GenerationOutput output(plan);
  output.Add(0, TextTokens("abc"));
  EXPECT_EQ(output.TakeChunk().chunk().text(), "a");
  output.Add(0, TextTokens("e"));
  EXPECT_EQ(output.TakeChunk().chunk().text(), "bce");
  output.Add(0, TextTokens("b"));
  EXPECT_EQ(output.TakeChunk().chunk().text(), "");
  output.End(0, {});
  EXPECT_EQ(output.TakeChunk().chunk().text(), "b");
  EXPECT_EQ(output.TakeComplete().complete().completions(0).finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST(StopStringOutput, GoesBeforeTheEnginesReason) {
  OutputPlan plan = WithText(/*is_stream=*/false);
  plan.skip_special_tokens = false;
  plan.stop_strings = Stops({"<|im_end|>"});
  GenerationOutput output(plan);
  EXPECT_EQ(output.Add(0, Tokens({507})), AfterTokens::kStop);
  output.End(0, {.reason = FinishReason::kEos, .matched_stop_token_id = 507, .timings = {}});
  const v1::Completion completion = output.TakeComplete().complete().completions(0);
  EXPECT_EQ(completion.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(completion.matched_stop_string(), "<|im_end|>");
  EXPECT_EQ(completion.text(), "");
}

TEST(StopStringOutput, CountsOnlyIfATokenAfterTheFewestCompletesIt) {
  const std::string text = "abab";
  const std::vector<std::string> expected = {"", "", "ab", "ab", "abab"};
  for (std::uint32_t min_tokens = 0; min_tokens < expected.size(); ++min_tokens) {
    OutputPlan plan = WithText(/*is_stream=*/false);
    plan.stop_strings = Stops({"ab"});
    plan.min_tokens = min_tokens;
    GenerationOutput output(plan);
    for (const char letter : text) output.Add(0, TextTokens(std::string(1, letter)));
    output.End(0, {});
    EXPECT_EQ(output.TakeComplete().complete().completions(0).text(), expected[min_tokens]) << min_tokens;
  }
}

TEST(StopTokenOutput, HasItsTextIfAskedFor) {
  OutputPlan plan = WithText(/*is_stream=*/false);
  plan.stop_token_ids = {TextTokens("b").front().token_id};
  plan.includes_stop = true;
  GenerationOutput output(plan);
  output.Add(0, TextTokens("a"));
  output.Add(0, TextTokens("b"));
  output.End(0, {});
  EXPECT_EQ(output.TakeComplete().complete().completions(0).text(), "ab");
}

TEST(EchoOutput, BeginsTheTextWithThePromptWhichIsNotSearched) {
  for (const bool is_stream : {true, false}) {
    OutputPlan plan = WithText(is_stream);
    plan.echo = "the prompt b";
    plan.stop_strings = Stops({"b"});
    GenerationOutput output(plan);
    EXPECT_FALSE(output.has_delta()) << "nothing is sent before the first token";
    EXPECT_EQ(output.num_unread_bytes(), 0u);
    output.Add(0, TextTokens("a"));
    if (is_stream) {
      EXPECT_EQ(output.TakeChunk().chunk().text(), "the prompt ba");
    }
    output.Add(0, TextTokens("cb"));
    output.End(0, {});
    if (is_stream) {
      EXPECT_EQ(output.TakeChunk().chunk().text(), "c");
    }
    const v1::Completion completion = output.TakeComplete().complete().completions(0);
    EXPECT_EQ(completion.text(), "the prompt bac");
    EXPECT_EQ(completion.token_ids_size(), 3) << "the prompt's are not among them";
  }
}

TEST(EchoOutput, IsToldWhereNoTokenComes) {
  OutputPlan plan = WithText();
  plan.echo = "prompt";
  GenerationOutput output(plan);
  output.End(0, {.reason = FinishReason::kAborted, .matched_stop_token_id = std::nullopt, .timings = {}});
  ASSERT_TRUE(output.has_delta());
  EXPECT_EQ(output.TakeChunk().chunk().text(), "prompt");
  EXPECT_EQ(output.TakeComplete().complete().completions(0).text(), "prompt");
}

std::vector<GeneratedToken> WithLogprobs(const std::vector<std::uint32_t>& ids) {
  std::vector<GeneratedToken> tokens = Tokens(ids);
  for (GeneratedToken& token : tokens) token.logprob = TokenLogprob{.logprob = -2, .rank = 3, .top = {}};
  return tokens;
}

TEST(PromptLogprobs, ComeInTheFirstChunkOfTheFirstContinuation) {
  OutputPlan plan = WithText();
  plan.n = 2;
  GenerationOutput output(plan);
  output.AddPromptLogprobs(WithLogprobs({7, 8}));
  output.AddPromptLogprobs(WithLogprobs({9}));
  EXPECT_FALSE(output.has_delta());
  EXPECT_EQ(output.num_unread_bytes(), 0u);
  output.Add(1, Tokens({64}));
  EXPECT_EQ(output.TakeChunk().chunk().prompt_logprobs_size(), 0);
  output.Add(0, Tokens({64}));
  const v1::Chunk chunk = output.TakeChunk().chunk();
  ASSERT_EQ(chunk.prompt_logprobs_size(), 3);
  EXPECT_EQ(chunk.prompt_logprobs(2).token_id(), 9u);
  EXPECT_EQ(chunk.prompt_logprobs(2).token(), TestTokenizer()->TokenBytes(9));
  EXPECT_EQ(chunk.prompt_logprobs(2).rank(), 3u);
  output.Add(0, Tokens({65}));
  EXPECT_EQ(output.TakeChunk().chunk().prompt_logprobs_size(), 0);
}

TEST(PromptLogprobs, ComeInSeveralFirstChunksIfTheyAreMany) {
  constexpr std::uint32_t kNumTokens = 8000;
  OutputPlan plan = WithText();
  plan.echo = "prompt";
  plan.num_prompt_tokens = kNumTokens + 1;
  GenerationOutput output(plan);
  std::vector<GeneratedToken> tokens;
  for (std::uint32_t i = 0; i < kNumTokens; ++i) {
    tokens.push_back({.token_id = i % kTestVocabulary, .logprob = TokenLogprob{.logprob = -2, .rank = 3, .top = {}}});
    tokens.back().logprob->top.assign(20, {.token_id = 500, .logprob = -1.5f});
  }
  output.AddPromptLogprobs(std::span(tokens).first(3000));
  output.AddPromptLogprobs(std::span(tokens).subspan(3000));
  EXPECT_FALSE(output.has_delta());
  output.Add(0, Tokens({64}));
  std::vector<v1::Chunk> chunks;
  std::size_t num_bytes = 0;
  std::uint32_t num_told = 0;
  while (output.has_delta()) {
    chunks.push_back(output.TakeChunk().chunk());
    EXPECT_LT(chunks.back().ByteSizeLong(), (1u << 20) + 1000);
    num_bytes += chunks.back().ByteSizeLong();
    for (const v1::TokenLogprob& one : chunks.back().prompt_logprobs()) {
      EXPECT_EQ(one.token_id(), num_told++ % kTestVocabulary);
    }
  }
  EXPECT_EQ(num_told, kNumTokens);
  ASSERT_EQ(chunks.size(), num_bytes / (1u << 20) + 1);
  ASSERT_GT(chunks.size(), 1u);
  for (std::size_t i = 0; i + 1 < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i].text(), "");
    EXPECT_EQ(chunks[i].token_ids_size(), 0);
    EXPECT_EQ(chunks[i].usage().prompt_tokens(), kNumTokens + 1);
    EXPECT_EQ(chunks[i].usage().completion_tokens(), 0u);
  }
  EXPECT_EQ(chunks.back().token_ids_size(), 1);
  EXPECT_TRUE(absl::StartsWith(chunks.back().text(), "prompt"));
}

TEST(PromptLogprobs, AreInASingleAnswer) {
  OutputPlan plan = WithText(/*is_stream=*/false);
  plan.n = 2;
  plan.echo = "prompt";
  GenerationOutput output(plan);
  output.AddPromptLogprobs(WithLogprobs({7, 8}));
  output.End(0, {});
  output.End(1, {});
  const v1::Complete complete = output.TakeComplete().complete();
  EXPECT_EQ(complete.completions(0).prompt_logprobs_size(), 2);
  EXPECT_EQ(complete.completions(1).prompt_logprobs_size(), 0);
}

TEST(SeveralContinuations, TakeTurnsAndAreCountedTogether) {
  OutputPlan plan = WithText();
  plan.n = 3;
  GenerationOutput output(plan);
  for (std::uint32_t index = 0; index < 3; ++index) output.Add(index, Tokens({64, 65}));
  output.Add(0, Tokens({66}));
  EXPECT_GE(output.num_unread_bytes(), 7u);
  for (std::uint32_t index = 0; index < 3; ++index) {
    const v1::Chunk chunk = output.TakeChunk().chunk();
    EXPECT_EQ(chunk.index(), index);
    EXPECT_EQ(chunk.usage().completion_tokens(), index == 0 ? 3u : 2u);
    EXPECT_EQ(chunk.usage().prompt_tokens(), 5u);
    output.Add(0, Tokens({67}));  // has something to tell each time, and yet it waits for its turn
  }
  output.TakeChunk();
  Finish early, late;
  early.timings = {.first_scheduled = absl::Seconds(1), .first_token = absl::Seconds(3), .finished = absl::Seconds(4)};
  late.timings = {.first_scheduled = absl::Seconds(1), .first_token = absl::Seconds(3), .finished = absl::Seconds(9)};
  late.reason = FinishReason::kTimeLimit;
  output.End(2, early);
  output.End(1, early);
  EXPECT_FALSE(output.is_ended());
  output.End(0, late);
  ASSERT_TRUE(output.is_ended());
  const v1::Complete complete = output.TakeComplete().complete();
  ASSERT_EQ(complete.completions_size(), 3);
  for (int index = 0; index < 3; ++index) EXPECT_EQ(complete.completions(index).index(), static_cast<unsigned>(index));
  EXPECT_EQ(complete.completions(0).finish_reason(), v1::FINISH_REASON_TIME_LIMIT);
  EXPECT_EQ(complete.completions(1).finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(complete.usage().prompt_tokens(), 5u);
  EXPECT_EQ(complete.usage().completion_tokens(), 10u);
  EXPECT_EQ(complete.timings().first_scheduled().seconds(), 1);
  EXPECT_EQ(complete.timings().first_token().seconds(), 3);
  EXPECT_EQ(complete.timings().finished().seconds(), 9);
}

}  // namespace
}  // namespace trireme::server
