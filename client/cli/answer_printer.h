// Shows a stream of GenerateResponse to a person, and what it cost.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "client/cli/terminal.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::client {

// For one call. Time runs from its construction. Not thread-safe.
class AnswerPrinter {
 public:
  // `num_continuations` is the request's `n`.
  explicit AnswerPrinter(Terminal& terminal, std::uint32_t num_continuations = 1);

  // The text of a single continuation is printed chunk by chunk, at once. Of an answer without text (there is no
  // tokenizer) the token ids are printed, when it is complete.
  void Print(const v1::GenerateResponse& response);

  // Ends the line of text. Several continuations are printed only here, each under a title of its own: as they come,
  // they would be mixed. Nothing is printed if nothing came.
  void EndText();

  // EndText, and tells on the error stream log-probabilities, if there were any, number of tokens, time to first token,
  // tokens per second, why it ended and the seed.
  void PrintSummary();

  // All text so far, of the first continuation.
  const std::string& text() const { return continuations_.at(0).text(); }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_single() const { return num_continuations_ == 1; }
  std::string Title(std::uint32_t index) const;
  int num_tokens() const;
  void TakeChunk(const v1::Chunk& chunk);
  void TakeComplete(const v1::Complete& complete);
  void PrintLogprobs(const v1::Completion& continuation);
  void PrintLogprob(const v1::TokenLogprob& logprob);
  std::string Summary() const;

  Terminal& terminal_;
  const Clock::time_point start_;
  std::optional<Clock::time_point> first_token_;
  Clock::time_point last_token_;
  const std::uint32_t num_continuations_;  // that were asked for; the server may refuse so many
  std::map<std::uint32_t, v1::Completion> continuations_ = {{0, {}}};  // what has come of each; by index
  bool is_line_open_ = false;
  std::optional<std::uint64_t> seed_;  // once it is complete
};

}  // namespace trireme::client
