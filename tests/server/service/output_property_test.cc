// The sum of the chunks is the single answer, byte for byte, and both are what the definition says: over random tokens
// (broken UTF-8, special tokens), random stop strings, chunks merged at random and several continuations.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "server/service/generation_output.h"
#include "tests/server/service/test_model.h"

namespace trireme::server {
namespace {

std::shared_ptr<const Tokenizer> TestTokenizer() {
  static const ServedModel* const model = new ServedModel(TextTestModel());
  return model->text.tokenizer();
}

using Tokens = std::vector<GeneratedToken>;

struct Case {
  OutputPlan plan;
  std::vector<std::string> stops;
  std::vector<Tokens> tokens;  // of each continuation, as many as the engine would sample if nothing stopped it
  Tokens prompt_logprobs;
};

// A few tokens again and again, so that stop strings occur, and any token at all, so that UTF-8 breaks.
std::uint32_t RandomId(std::mt19937& random) {
  static const std::vector<std::uint32_t> kFew = *TestTokenizer()->EncodeIds("abcé😀", false);
  return random() % 3 == 0 ? random() % kTestVocabulary : kFew[random() % kFew.size()];
}

GeneratedToken RandomToken(std::mt19937& random, bool has_logprob) {
  GeneratedToken token{.token_id = RandomId(random), .logprob = std::nullopt};
  if (has_logprob) {
    token.logprob = TokenLogprob{.logprob = -static_cast<float>(random() % 9),
                                 .rank = static_cast<std::uint32_t>(1 + random() % 9),
                                 .top = {{RandomId(random), -1}, {token.token_id, -2}}};
  }
  return token;
}

std::string RandomStop(std::mt19937& random) {
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 1 + random() % 4; i > 0; --i) ids.push_back(RandomId(random));
  const std::string text = TestTokenizer()->Decode(ids, random() % 2 == 0);
  return text.empty() ? "ab" : text;
}

Case RandomCase(std::mt19937& random) {
  Case one;
  one.plan = {.request_id = "r", .num_prompt_tokens = 3, .seed = 5, .tokenizer = TestTokenizer()};
  one.plan.n = 1 + random() % 3;
  one.plan.skip_special_tokens = random() % 2 == 0;
  one.plan.includes_stop = random() % 2 == 0;
  one.plan.min_tokens = random() % 3 == 0 ? random() % 20 : 0;
  if (random() % 3 == 0) one.plan.echo = RandomStop(random);
  const std::size_t num_stops = random() % 4 == 0 ? 0 : 1 + random() % (random() % 2 == 0 ? 3 : 64);
  for (std::size_t i = 0; i < num_stops; ++i) one.stops.push_back(RandomStop(random));
  if (num_stops > 0) one.plan.stop_strings = std::make_shared<const StopStrings>(one.stops);
  const bool has_logprobs = random() % 2 == 0;
  for (std::uint32_t index = 0; index < one.plan.n; ++index) {
    Tokens& tokens = one.tokens.emplace_back();
    for (std::size_t i = random() % 40; i > 0; --i) tokens.push_back(RandomToken(random, has_logprobs));
  }
  for (std::size_t i = random() % 5; i > 0; --i) one.prompt_logprobs.push_back(RandomToken(random, true));
  return one;
}

// What an engine says to `output`, the continuations in any order; `take` is called after each call.
template <typename Take>
void Run(const Case& one, unsigned order, GenerationOutput& output, const Take& take) {
  std::mt19937 random(order);
  output.AddPromptLogprobs(one.prompt_logprobs);
  std::vector<std::size_t> next(one.tokens.size(), 0);
  std::vector<bool> is_ended(one.tokens.size(), false);
  while (!output.is_ended()) {
    const std::uint32_t index = random() % static_cast<std::uint32_t>(one.tokens.size());
    if (is_ended[index]) continue;
    const std::span<const GeneratedToken> rest = std::span(one.tokens[index]).subspan(next[index]);
    const std::size_t count = std::min<std::size_t>(rest.size(), 1 + random() % 3);
    const bool is_stopped = count > 0 && output.Add(index, rest.first(count)) == AfterTokens::kStop;
    next[index] += count;
    is_ended[index] = is_stopped || next[index] == one.tokens[index].size();
    if (is_ended[index])
      output.End(index, {.reason = FinishReason::kLength, .matched_stop_token_id = std::nullopt, .timings = {}});
    take();
  }
}

v1::Complete SingleAnswer(Case one) {
  one.plan.is_stream = false;
  GenerationOutput output(one.plan);
  Run(one, 1, output, [&output] { EXPECT_FALSE(output.has_delta()); });
  return output.TakeComplete().complete();
}

// The same as a stream, its chunks put together.
v1::Complete SumOfChunks(const Case& one, std::mt19937& random) {
  GenerationOutput output(one.plan);
  std::vector<v1::Completion> sums(one.plan.n);
  const auto take_one = [&] {
    const v1::Chunk chunk = output.TakeChunk().chunk();
    v1::Completion& sum = sums.at(chunk.index());
    EXPECT_TRUE(chunk.prompt_logprobs().empty() || (chunk.index() == 0 && sum.token_ids().empty()));
    sum.mutable_text()->append(chunk.text());
    sum.mutable_token_ids()->MergeFrom(chunk.token_ids());
    sum.mutable_logprobs()->MergeFrom(chunk.logprobs());
    sum.mutable_prompt_logprobs()->MergeFrom(chunk.prompt_logprobs());
    EXPECT_TRUE(sum.logprobs().empty() || sum.logprobs_size() == sum.token_ids_size());
    EXPECT_EQ(chunk.usage().completion_tokens(), static_cast<unsigned>(sum.token_ids_size()));
  };
  Run(one, 2, output, [&] {
    while (output.has_delta() && random() % 3 != 0) take_one();
  });
  while (output.has_delta()) take_one();
  v1::Complete complete = output.TakeComplete().complete();
  for (std::uint32_t index = 0; index < one.plan.n; ++index) {
    v1::Completion& completion = *complete.mutable_completions(static_cast<int>(index));
    EXPECT_EQ(completion.text(), sums[index].text());
    EXPECT_TRUE(std::equal(completion.token_ids().begin(), completion.token_ids().end(),
                           sums[index].token_ids().begin(), sums[index].token_ids().end()));
    EXPECT_TRUE(completion.logprobs().empty() && completion.prompt_logprobs().empty()) << "chunks have told them";
    *completion.mutable_logprobs() = sums[index].logprobs();
    *completion.mutable_prompt_logprobs() = sums[index].prompt_logprobs();
  }
  return complete;
}

// The definition, by decoding longer and longer beginnings of the tokens and looking at the whole text each time.
struct Expected {
  std::string text;
  std::size_t num_tokens = 0;
  std::string match;
};

// How the first stop string in `text` ends it, if there is one that ends behind `begin`.
bool FindStop(const Case& one, const std::string& text, std::size_t begin, Expected& expected) {
  for (std::size_t end = begin + 1; end <= text.size(); ++end) {
    for (const std::string& stop : one.stops) {
      const bool is_there = end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (is_there && stop.size() > expected.match.size()) expected.match = stop;
    }
    if (expected.match.empty()) continue;
    expected.text = text.substr(0, end - (one.plan.includes_stop ? 0 : expected.match.size()));
    return true;
  }
  return false;
}

Expected Definition(const Case& one, const Tokens& tokens) {
  Expected expected;
  IncrementalDecoder decoder(*one.plan.tokenizer, one.plan.skip_special_tokens);
  std::string text;
  std::size_t begin = 0;
  for (const GeneratedToken& token : tokens) {
    text += decoder.Push(token.token_id);
    if (++expected.num_tokens <= one.plan.min_tokens) begin = text.size();
    if (FindStop(one, text, begin, expected)) return expected;
  }
  text += decoder.Finish();
  if (expected.num_tokens <= one.plan.min_tokens) begin = text.size();
  if (!FindStop(one, text, begin, expected)) expected.text = text;
  return expected;
}

TEST(OutputProperty, TheSumOfChunksIsTheSingleAnswerAndBothAreAsDefined) {
  std::mt19937 random(2024);
  int num_stopped = 0, num_completions = 0;
  for (int round = 0; round < 1500; ++round) {
    const Case one = RandomCase(random);
    const v1::Complete single = SingleAnswer(one), sum = SumOfChunks(one, random);
    ASSERT_EQ(single.SerializeAsString(), sum.SerializeAsString()) << "round " << round;
    ASSERT_EQ(single.completions(0).prompt_logprobs_size(), static_cast<int>(one.prompt_logprobs.size()));
    for (std::uint32_t index = 0; index < one.plan.n; ++index) {
      const Expected expected = Definition(one, one.tokens[index]);
      const v1::Completion& completion = single.completions(static_cast<int>(index));
      ASSERT_EQ(completion.text(), one.plan.echo.value_or("") + expected.text) << "round " << round;
      ASSERT_EQ(static_cast<std::size_t>(completion.token_ids_size()), expected.num_tokens);
      ASSERT_EQ(completion.matched_stop_string(), expected.match);
      ASSERT_EQ(completion.finish_reason() == v1::FINISH_REASON_STOP, !expected.match.empty());
      num_stopped += !expected.match.empty();
      ++num_completions;
    }
  }
  EXPECT_GT(num_stopped, num_completions / 10);
  EXPECT_LT(num_stopped, num_completions * 9 / 10);
}

}  // namespace
}  // namespace trireme::server
