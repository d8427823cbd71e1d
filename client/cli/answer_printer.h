// Shows a stream of GenerateResponse to a person, and what it cost.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/terminal.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::client {

// For one call. Time runs from its construction. Not thread-safe.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(Terminal& terminal) : terminal_(terminal), start_(Clock::now()) {}

  // Prints the text of a chunk at once. Of an answer without text (there is no tokenizer) the token ids are printed,
  // when it is complete.
  void Print(const v1::GenerateResponse& response);

  // Ends the line of text, and tells on the error stream log-probabilities, if there were any, time to first token,
  // tokens per second, number of tokens and why it ended.
  void PrintSummary();

  // All text so far.
  const std::string& text() const { return text_; }

 private:
  using Clock = std::chrono::steady_clock;

  void PrintChunk(const v1::Chunk& chunk);
  void PrintComplete(const v1::Complete& complete);
  void PrintLogprob(const v1::TokenLogprob& logprob);

  Terminal& terminal_;
  const Clock::time_point start_;
  std::optional<Clock::time_point> first_token_;
  Clock::time_point last_token_;
  std::string text_;
  int num_tokens_ = 0;
  std::vector<v1::TokenLogprob> logprobs_;
  std::optional<v1::Complete> complete_;
};

}  // namespace trireme::client
