// The engine's end of the worker group: steps go out, results and changes of the group's state come back. The engine
// knows no proto and no process; the coordinator implements this over the control streams, tests by fakes.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/request.h"

namespace trireme::server {

// Puts a sequence into a slot.
struct Admission {
  std::uint32_t slot = 0;
  std::uint64_t epoch = 0;                 // grows with each admission
  std::vector<std::uint32_t> tokens = {};  // the prompt, and what was generated before if the sequence comes back
  std::uint32_t num_prompt_tokens = 0;
  // Tokens whose keys and values are in the blocks that the slot's first item brings; fewer than `tokens`.
  std::uint32_t num_computed = 0;
  SamplingParams sampling;
  std::uint32_t sample = 0;      // which of a request's `n`
  std::uint32_t min_tokens = 0;  // none of ending_token_ids is sampled before this many are generated
  std::vector<std::uint32_t> ending_token_ids = {};
  // Index in `tokens` of the first prompt token whose log-probability is wanted, if sampling asks for them; > 0.
  std::uint32_t first_prompt_logprob = 1;
};

// The next `num_tokens` tokens of a slot. If the slot's last token (given by Admission, or sampled since) is among
// them, one token is sampled and becomes the slot's last. Each row whose next token is a prompt token of which the
// log-probability is wanted gives that.
struct StepItem {
  std::uint32_t slot = 0;
  std::uint32_t num_tokens = 0;  // > 0
  // Per KV group; appended to the slot's block tables. After an Admission with num_computed, the first of them hold that.
  std::vector<std::vector<std::uint32_t>> new_blocks = {};
};

// Releases, then admissions, then one forward pass over the items. A slot may be released and admitted to in one step.
struct StepCommand {
  std::uint64_t generation = 0;  // GroupCapacity's, of the group that it is meant for
  std::uint64_t number = 0;      // 1, 2, 3, ... since the group came up
  std::vector<std::uint32_t> releases = {};
  std::vector<Admission> admissions = {};  // each slot has an item, too
  std::vector<StepItem> items = {};        // not empty; each slot once
};

struct SlotTokens {
  std::uint32_t slot = 0;
  std::uint64_t epoch = 0;  // as in the Admission
  std::vector<GeneratedToken> tokens = {};
  std::vector<GeneratedToken> prompt_tokens = {};  // with log-probabilities, those that the step's rows give, in order
  // Not OK: why this sequence cannot go on (INTERNAL: the model's numbers are broken; INVALID_ARGUMENT: its settings
  // leave no token to sample). There are no tokens then, and what later steps give of it means nothing.
  absl::Status status = absl::OkStatus();
};

// One for each step, also if nothing was sampled in it.
struct StepResult {
  std::uint64_t number = 0;
  // Of the items that sampled or were to give log-probabilities of the prompt.
  std::vector<SlotTokens> slots = {};
  absl::Duration duration;  // of the forward pass, on rank 0
};

// What a group that came up can hold.
struct GroupCapacity {
  std::uint64_t generation = 0;                   // grows with each start of the group
  std::vector<std::uint32_t> num_kv_blocks = {};  // per KV group (at least one), the least of all ranks
};

// Told of the group. Called on threads of the implementation, one call at a time; must return at once.
class StepListener {
 public:
  virtual ~StepListener() = default;

  // The group is loaded and warmed up; its slots are empty and step numbers begin at 1.
  virtual void OnGroupUp(const GroupCapacity& capacity) = 0;
  // In order of their numbers: the link has checked what came off the wire. A step whose result does not come in time
  // is the link's to notice; it ends in OnGroupDown.
  virtual void OnStepResult(StepResult result) = 0;
  // The group is gone with all it held; no result of it follows. `cause` names the rank and the first cause. Another
  // OnGroupUp follows, unless `for_good`. May come before the first OnGroupUp.
  virtual void OnGroupDown(const absl::Status& cause, bool for_good) = 0;
};

class StepLink {
 public:
  virtual ~StepLink() = default;

  // Sends a step to every rank. Returns at once. A step of a generation that is not up is dropped: OnGroupDown has been
  // or will be called. Called on the engine's thread.
  virtual void Send(const StepCommand& command) = 0;

  // The losses of these generations were one request's doing, and it has ended: they say nothing against the group. May
  // name some that are long past. Returns at once. Called on the engine's thread, before it sends to a generation that
  // came up later: so before that can be lost to a step.
  virtual void ExcuseLosses(std::span<const std::uint64_t> generations) = 0;
};

}  // namespace trireme::server
