// A request as the engine knows it: token ids in, token ids out. Text, protos and transports are adapters around it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace trireme::server {

// Already checked: finite, in range.
struct SamplingParams {
  float temperature = 1;    // 0 is greedy
  std::uint32_t top_k = 0;  // 0 keeps all
  float top_p = 1;          // in (0, 1]
  std::uint64_t seed = 0;
  std::optional<std::uint32_t> logprobs;  // that of the chosen token and of this many likeliest
};

struct StoppingParams {
  std::uint32_t max_tokens = 0;            // > 0; the sequence also ends, with kLength, when its context is full
  std::set<std::uint32_t> stop_token_ids;  // end with kStop, also if they are in eos_token_ids
  std::set<std::uint32_t> eos_token_ids;   // end with kEos; empty to ignore the end of sequence
};

struct Request {
  std::string id;                     // unique among those alive
  std::vector<std::uint32_t> prompt;  // not empty, ids below the vocabulary, shorter than max_model_len
  SamplingParams sampling;
  StoppingParams stopping;
  absl::Time deadline = absl::InfiniteFuture();
};

struct TopLogprob {
  std::uint32_t token_id = 0;
  float logprob = 0;
};

// Of the model's own distribution, before temperature and filters.
struct TokenLogprob {
  float logprob = 0;
  std::uint32_t rank = 0;  // 1 is the likeliest
  std::vector<TopLogprob> top;
};

struct GeneratedToken {
  std::uint32_t token_id = 0;
  std::optional<TokenLogprob> logprob;
};

enum class FinishReason { kEos, kStop, kLength, kAborted };

// Durations since Submit, by the monotonic clock.
struct RequestTimings {
  std::optional<absl::Duration> first_scheduled;  // nothing if it was aborted while it waited
  std::optional<absl::Duration> first_token;
  absl::Duration finished;
};

struct Finish {
  FinishReason reason = FinishReason::kLength;
  std::optional<std::uint32_t> matched_stop_token_id;  // for kEos and kStop
  RequestTimings timings;
};

// Where a request's tokens go. Called on the engine's thread, in order, never after OnFinish or OnError; must not
// block. May be called before Submit has returned. It may call the engine's methods, Stop and the destructor aside.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;

  // Tokens that were sampled since the last call, at least one. A stop token or end of sequence is among them.
  virtual void OnTokens(std::span<const GeneratedToken> tokens) = 0;

  // The last call if the request ended as it should.
  virtual void OnFinish(const Finish& finish) = 0;

  // The last call otherwise. UNAVAILABLE or ABORTED (if a token was given out) when the worker group was lost, naming
  // rank and cause; DEADLINE_EXCEEDED; CANCELLED; RESOURCE_EXHAUSTED if a new group is too small for it; INTERNAL if
  // the worker broke the protocol.
  virtual void OnError(const absl::Status& status) = 0;
};

// RESOURCE_EXHAUSTED that passes by itself: the queue is full.
absl::Status QueueFullError(std::string_view message);

// Whether the same request may succeed later, so that a client should be told to retry: UNAVAILABLE and
// QueueFullError, not a request that could never fit.
bool IsRetryable(const absl::Status& status);

}  // namespace trireme::server
