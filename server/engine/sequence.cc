#include "server/engine/sequence.h"

#include <algorithm>

namespace trireme::server {

Sequence::Sequence(ActiveRequest* of, std::uint32_t index_in_request)
    : key(of->key + index_in_request),
      index(index_in_request),
      request(of),
      order(OrderOf(of->submitted, of->priority, key)),
      tokens(of->prompt) {}

bool Sequence::wants_prompt_logprobs() const {
  return index == 0 && request->sampling.prompt_logprobs.has_value() &&
         request->num_prompt_logprobs + 1 < request->num_prompt_tokens();
}

std::span<const std::uint32_t> Sequence::findable() const {
  return std::span(tokens).first(wants_prompt_logprobs() ? request->num_prompt_logprobs : tokens.size() - 1);
}

std::span<const std::uint32_t> Sequence::computed() const {
  return std::span(tokens).first(std::min<std::size_t>(num_computed, tokens.size()));
}

SequenceView Sequence::View(std::uint32_t length_limit) const {
  // Nothing is computed from the last token that it may have.
  const std::uint64_t wanted = std::uint64_t{request->num_prompt_tokens()} + request->stopping.max_tokens;
  const std::uint64_t most = std::min<std::uint64_t>(length_limit, wanted);
  const std::uint64_t sampled = tokens.size() + num_sampling;
  SequenceView view{.key = key,
                    .num_tokens = static_cast<std::uint32_t>(std::min(sampled, most - 1)),
                    .num_computed = num_computed,
                    .num_blocks = place.has_value() ? place->num_blocks() : 0};
  if (!wants_prompt_logprobs()) return view;
  // A row tells of the token that follows it.
  view.logprobs_begin = request->num_prompt_logprobs;
  view.logprobs_end = request->num_prompt_tokens() - 1;
  return view;
}

std::optional<FinishReason> Sequence::ReasonToFinish(std::uint32_t length_limit) const {
  const StoppingParams& stopping = request->stopping;
  if (stopping.stop_token_ids.contains(tokens.back())) return FinishReason::kStop;
  if (stopping.eos_token_ids.contains(tokens.back())) return FinishReason::kEos;
  if (num_generated() == stopping.max_tokens || tokens.size() == length_limit) return FinishReason::kLength;
  return std::nullopt;
}

}  // namespace trireme::server
