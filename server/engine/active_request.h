// A request inside the engine: what its sequences share.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/gate.h"
#include "server/engine/request.h"

namespace trireme::server {

// Alive until all its sequences have ended. Owned by the engine's thread.
struct ActiveRequest {
  explicit ActiveRequest(SubmitEvent event);

  std::uint64_t key;  // of sequence 0; the others' follow
  std::string id;
  std::uint32_t n;
  int priority;
  std::vector<std::uint32_t> prompt;
  SamplingParams sampling;
  StoppingParams stopping;
  std::string cache_salt;
  std::vector<std::uint32_t> ending_token_ids;  // of `stopping`, both kinds
  absl::Time deadline;
  absl::Time expires;  // at the deadline or when the time limit has passed, whichever is first
  std::shared_ptr<RequestObserver> observer;
  std::chrono::steady_clock::time_point submitted;

  std::uint32_t num_unfinished;                   // sequences
  std::uint32_t num_generated = 0;                // tokens of all sequences
  std::uint32_t cached_tokens = 0;                // of the prompt, found when sequence 0 was first scheduled
  std::uint32_t num_prompt_logprobs = 0;          // that the observer has
  std::optional<absl::Duration> first_scheduled;  // since `submitted`, as that below
  std::optional<absl::Duration> first_token;

  std::uint32_t num_prompt_tokens() const { return static_cast<std::uint32_t>(prompt.size()); }
  absl::Duration Age() const { return absl::FromChrono(std::chrono::steady_clock::now() - submitted); }
  RequestTimings TimingsAtEnd() const;
};

}  // namespace trireme::server
