// Tokens of one request → messages of the public API.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/engine/request.h"
#include "server/service/continuation_output.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {

// All `n` continuations of a request; ContinuationOutput says what is told of each. Takes what a RequestObserver is told.
//
// Not thread-safe.
class GenerationOutput {
 public:
  explicit GenerationOutput(OutputPlan plan);
  GenerationOutput(const GenerationOutput&) = delete;
  GenerationOutput& operator=(const GenerationOutput&) = delete;

  void AddPromptLogprobs(std::span<const GeneratedToken> tokens) { continuations_[0].AddPromptLogprobs(tokens); }
  AfterTokens Add(std::uint32_t index, std::span<const GeneratedToken> tokens);
  void End(std::uint32_t index, const Finish& finish);

  // Whether all continuations have ended.
  bool is_ended() const;

  // Whether there is something that no chunk has told yet. Never in an answer that is no stream.
  bool has_delta() const;

  // What waits of all continuations; see ContinuationOutput.
  std::size_t num_unread_bytes() const;

  // What came of one continuation since its last chunk (see ContinuationOutput); they take turns.
  // REQUIRES: has_delta().
  v1::GenerateResponse TakeChunk();

  // The last message. REQUIRES: is_ended(), and !has_delta().
  v1::GenerateResponse TakeComplete();

 private:
  const OutputPlan plan_;
  std::vector<ContinuationOutput> continuations_;
  std::size_t next_ = 0;  // whose turn it is
  std::uint32_t num_cached_tokens_ = 0;
  RequestTimings timings_;  // as the last that ended told them: they are the request's
};

}  // namespace trireme::server
