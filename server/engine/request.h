// A request as the engine knows it: token ids in, token ids out. Text, protos and transports are adapters around it.
#pragma once
#include <cstdint>
#include <map>
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

// How a token is chosen, in the order in which it is applied to the logits; StoppingParams::min_tokens goes with
// bad_words. Already checked: finite, in range, ids below the vocabulary. The defaults do nothing.
struct SamplingParams {
  std::map<std::uint32_t, float> logit_bias = {};          // added to the logit of a token id
  float repetition_penalty = 1;                            // > 0; of tokens in prompt and output
  float frequency_penalty = 0;                             // of tokens in the output, for each time
  float presence_penalty = 0;                              // the same, once
  std::vector<std::vector<std::uint32_t>> bad_words = {};  // token sequences that are never completed; none is empty
  float temperature = 1;                                   // 0 is greedy
  std::uint32_t top_k = 0;                                 // 0 keeps all
  float top_p = 1;                                         // in (0, 1]
  float min_p = 0;                                         // in [0, 1]
  float typical_p = 1;                                     // in (0, 1]
  std::uint64_t seed = 0;
  std::optional<std::uint32_t> logprobs = {};         // that of the chosen token and of this many likeliest
  std::optional<std::uint32_t> prompt_logprobs = {};  // the same of each prompt token but the first
};

struct StoppingParams {
  std::uint32_t max_tokens = 0;                 // > 0; the sequence also ends, with kLength, when its context is full
  std::uint32_t min_tokens = 0;                 // none of the ids below is sampled before this many; at most max_tokens
  std::set<std::uint32_t> stop_token_ids = {};  // end with kStop, also if they are in eos_token_ids
  std::set<std::uint32_t> eos_token_ids = {};   // end with kEos; empty to ignore the end of sequence
};

struct Request {
  std::string id = {};                     // unique among those alive
  std::vector<std::uint32_t> prompt = {};  // not empty, ids below the vocabulary, shorter than max_model_len
  SamplingParams sampling;
  StoppingParams stopping;
  std::uint32_t n = 1;          // continuations of the prompt, each a sequence of its own; > 0
  int priority = 0;             // higher goes first; waiting raises it by one a second
  std::string cache_salt = {};  // prefixes are shared only among requests of the same salt
  absl::Time deadline = absl::InfiniteFuture();
  // Since Submit; then every sequence ends with kTimeLimit and what there is.
  absl::Duration time_limit = absl::InfiniteDuration();
};

struct TopLogprob {
  std::uint32_t token_id = 0;
  float logprob = 0;
};

// Of the model's own distribution, before temperature and filters.
struct TokenLogprob {
  float logprob = 0;
  std::uint32_t rank = 0;  // 1 is the likeliest
  std::vector<TopLogprob> top = {};
};

struct GeneratedToken {
  std::uint32_t token_id = 0;
  std::optional<TokenLogprob> logprob = {};
};

enum class FinishReason { kEos, kStop, kLength, kTimeLimit, kAborted };

// How metrics and logs call the end of a request: "eos", "stop", "length", "time_limit", "abort"; or the name of an
// error's code in lower case ("cancelled", "deadline_exceeded").
std::string_view OutcomeName(FinishReason reason);
std::string OutcomeName(const absl::Status& status);

// Durations since Submit, by the monotonic clock.
struct RequestTimings {
  std::optional<absl::Duration> first_scheduled = {};  // nothing if it was aborted while it waited
  std::optional<absl::Duration> first_token = {};
  absl::Duration finished;
};

struct Finish {
  FinishReason reason = FinishReason::kLength;
  std::optional<std::uint32_t> matched_stop_token_id = {};  // for kEos and kStop; nothing if the observer said kStop
  std::uint32_t cached_tokens = 0;  // of the request's prompt, whose keys and values were in the prefix cache
  RequestTimings timings;           // of the request, until now
};

// What an observer wants of a sequence that has given it tokens.
enum class AfterTokens { kContinue, kStop };

// Where a request's tokens go. `index` in [0, Request::n) tells the sequence. Called on the engine's thread, in order,
// nothing of an index after its OnFinish, nothing at all after the last OnFinish or OnError; must not block. May be
// called before Submit has returned. It may call the engine's methods, Stop and the destructor aside.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;

  // Log-probabilities of the prompt's next tokens, the first one aside, in order; all of them before the first OnTokens
  // of index 0. Only if they were asked for.
  virtual void OnPromptLogprobs(std::span<const GeneratedToken> tokens) = 0;

  // Tokens that were sampled since the last call, at least one. A stop token or end of sequence is among them. kStop
  // ends this sequence, with FinishReason::kStop, whatever else would end it with them.
  virtual AfterTokens OnTokens(std::uint32_t index, std::span<const GeneratedToken> tokens) = 0;

  // Once for each index if the request ended as it should.
  virtual void OnFinish(std::uint32_t index, const Finish& finish) = 0;

  // The last call otherwise. UNAVAILABLE or ABORTED (if a token was given out) when the worker group was lost for good,
  // naming rank and cause, or the engine stops; DEADLINE_EXCEEDED; what Cancel was given; RESOURCE_EXHAUSTED if a new
  // group is too small for it; INTERNAL if the worker broke the protocol, if the model's numbers are broken, or if it
  // KillsWorkers; INVALID_ARGUMENT if its settings leave no token to sample.
  virtual void OnError(const absl::Status& status) = 0;
};

// RESOURCE_EXHAUSTED that passes by itself: the queue is full.
absl::Status QueueFullError(std::string_view message);

// INTERNAL, of a request that is to blame for the loss of its workers.
absl::Status KillsWorkersError(std::string_view message);
bool KillsWorkers(const absl::Status& status);

// Whether the same request may succeed later, so that a client should be told to retry: UNAVAILABLE and
// QueueFullError, not a request that could never fit.
bool IsRetryable(const absl::Status& status);

}  // namespace trireme::server
