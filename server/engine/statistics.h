// What the engine, and the service before it, report to whoever keeps metrics.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "server/engine/request.h"

namespace trireme::server {

// Of a request that has ended.
struct RequestSummary {
  std::string outcome;  // an OutcomeName; where it finished, that of the sequence that ended last
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;     // of the prompt
  std::uint32_t generated_tokens = 0;  // of all sequences
  std::uint32_t max_tokens = 0;        // of each
  std::uint32_t n = 1;
  // Queued until first_scheduled, prefill until first_token, decode until finished.
  RequestTimings timings;
};

// Called on the engine's thread; must not block.
class EngineStatistics {
 public:
  virtual ~EngineStatistics() = default;
  // Of a request that the engine took, before any other call about it.
  virtual void OnAccepted() = 0;
  // Of a request, whichever sequence it belongs to.
  virtual void OnFirstToken(absl::Duration since_submit) = 0;
  // Between two tokens of one sequence.
  virtual void OnInterToken(absl::Duration gap) = 0;
  // Rows and sequences of one step, and its time on rank 0.
  virtual void OnStep(absl::Duration worker_time, std::uint32_t num_tokens, std::uint32_t num_sequences) = 0;
  // A prompt counts once, together with its request's first token.
  virtual void OnTokens(std::uint32_t prompt_tokens, std::uint32_t generated_tokens) = 0;
  // Once for each request, before the observer's last call and before the engine counts as idle.
  virtual void OnRequestEnd(const RequestSummary& summary) = 0;
};

// Called on any thread; must not block.
class ServiceStatistics {
 public:
  virtual ~ServiceStatistics() = default;

  // A Generate call ended before the engine took it, or a call of any method had no good token ("unauthenticated").
  // `code` is a status code's name in lower case.
  virtual void OnRefused(std::string_view code) = 0;

  // A Generate call ends with an error, whether the engine had taken it or not: before the client hears of it.
  // `reason` is that of the ErrorInfo that the client gets.
  virtual void OnFailure(std::string_view code, std::string_view reason) = 0;
};

}  // namespace trireme::server
