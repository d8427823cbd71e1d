// One of a request's continuations: how far it is.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/active_request.h"
#include "server/engine/group_ledger.h"
#include "server/engine/request.h"
#include "server/engine/scheduler.h"
#include "server/engine/service_order.h"

namespace trireme::server {

// Owned by the engine's thread.
struct Sequence {
  Sequence(ActiveRequest* of, std::uint32_t index_in_request);

  std::uint64_t key;
  std::uint32_t index;  // in [0, request->n)
  ActiveRequest* request;
  ServiceOrder order;

  std::vector<std::uint32_t> tokens;  // prompt, then what was generated

  // While it runs; nothing while it waits.
  std::optional<Place> place;
  std::uint32_t num_computed = 0;  // as it will be after the steps in flight
  std::uint32_t num_sampling = 0;  // tokens that steps in flight will sample

  std::optional<absl::Duration> last_token;  // when it came, since the request was submitted

  std::uint32_t num_generated() const {
    return static_cast<std::uint32_t>(tokens.size()) - request->num_prompt_tokens();
  }

  // Whether log-probabilities of the prompt are still to come: only sequence 0 asks for them.
  bool wants_prompt_logprobs() const;

  // The tokens whose keys and values it may find in the prefix cache: not the last, from which it samples, nor those
  // whose log-probabilities are still to come.
  std::span<const std::uint32_t> findable() const;

  // The tokens that are known and computed by steps that were sent.
  std::span<const std::uint32_t> computed() const;

  // As the scheduler sees it, if it runs, or finds nothing in the cache, and may have `length_limit` tokens in all.
  SequenceView View(std::uint32_t length_limit) const;

  // Whether the token that was added last ends it, and how.
  std::optional<FinishReason> ReasonToFinish(std::uint32_t length_limit) const;
};

}  // namespace trireme::server
