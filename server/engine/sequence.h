// A request inside the engine: what it asked for, and how far it is.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/gate.h"
#include "server/engine/group_ledger.h"
#include "server/engine/request.h"
#include "server/engine/scheduler.h"

namespace trireme::server {

// Owned by the engine's thread.
struct Sequence {
  explicit Sequence(SubmitEvent event);

  std::uint64_t key;
  std::string id;
  SamplingParams sampling;
  StoppingParams stopping;
  absl::Time deadline;
  std::shared_ptr<RequestObserver> observer;

  std::vector<std::uint32_t> tokens;  // prompt, then what was generated
  std::uint32_t num_prompt_tokens;

  // While it runs; nothing while it waits.
  std::optional<Place> place;
  std::uint32_t num_computed = 0;  // as it will be after the steps in flight
  std::uint32_t num_sampling = 0;  // tokens that steps in flight will sample

  std::chrono::steady_clock::time_point submitted;
  std::optional<absl::Duration> first_scheduled;  // since `submitted`, as those below
  std::optional<absl::Duration> first_token;
  absl::Duration last_token;

  std::uint32_t num_generated() const { return static_cast<std::uint32_t>(tokens.size()) - num_prompt_tokens; }
  absl::Duration Age() const { return absl::FromChrono(std::chrono::steady_clock::now() - submitted); }

  // As the scheduler sees it, if it may have `length_limit` tokens in all.
  SequenceView View(std::uint32_t length_limit) const;

  // Whether the token that was added last ends it, and how.
  std::optional<FinishReason> ReasonToFinish(std::uint32_t length_limit) const;
};

}  // namespace trireme::server
