#include "server/coordinator/step_messages.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/duration_message.h"

namespace trireme::server {
namespace {

namespace v1 = worker::v1;

void Write(const SamplingParams& params, v1::Sampling* message) {
  message->mutable_logit_bias()->insert(params.logit_bias.begin(), params.logit_bias.end());
  message->set_repetition_penalty(params.repetition_penalty);
  message->set_presence_penalty(params.presence_penalty);
  message->set_frequency_penalty(params.frequency_penalty);
  for (const std::vector<std::uint32_t>& word : params.bad_words) {
    message->add_bad_words()->mutable_ids()->Add(word.begin(), word.end());
  }
  message->set_temperature(params.temperature);
  message->set_top_k(params.top_k);
  message->set_top_p(params.top_p);
  message->set_min_p(params.min_p);
  message->set_typical_p(params.typical_p);
  message->set_seed(params.seed);
  if (params.logprobs) message->set_logprobs(*params.logprobs);
  if (params.prompt_logprobs) message->set_prompt_logprobs(*params.prompt_logprobs);
}

void Write(const Admission& admission, v1::Admit* message) {
  message->set_slot(admission.slot);
  message->set_epoch(admission.epoch);
  message->mutable_tokens()->Add(admission.tokens.begin(), admission.tokens.end());
  message->set_num_prompt_tokens(admission.num_prompt_tokens);
  message->set_num_computed(admission.num_computed);
  message->set_first_prompt_logprob(admission.first_prompt_logprob);
  v1::Sampling& sampling = *message->mutable_sampling();
  Write(admission.sampling, &sampling);
  sampling.set_sample(admission.sample);
  sampling.set_min_tokens(admission.min_tokens);
  sampling.mutable_ending_token_ids()->Add(admission.ending_token_ids.begin(), admission.ending_token_ids.end());
}

void Write(const StepItem& item, v1::StepItem* message) {
  message->set_slot(item.slot);
  message->set_num_tokens(item.num_tokens);
  for (const std::vector<std::uint32_t>& blocks : item.new_blocks) {
    message->add_new_blocks()->mutable_blocks()->Add(blocks.begin(), blocks.end());
  }
}

GeneratedToken Read(const v1::SampledToken& message) {
  GeneratedToken token{.token_id = message.token_id(), .logprob = std::nullopt};
  if (!message.has_logprob()) return token;
  TokenLogprob& logprob = token.logprob.emplace();
  logprob.logprob = message.logprob();
  logprob.rank = message.token_rank();
  for (const v1::TopToken& top : message.top()) {
    logprob.top.push_back({.token_id = top.token_id(), .logprob = top.logprob()});
  }
  return token;
}

// A code that is none, or that says OK, is no code that a worker sends.
absl::Status Read(const v1::SlotError& message) {
  const auto code = static_cast<absl::StatusCode>(message.code());
  if (code == absl::StatusCode::kInternal || code == absl::StatusCode::kInvalidArgument) {
    return absl::Status(code, message.message());
  }
  return absl::InternalError(absl::StrCat("a worker's error of code ", message.code(), ": ", message.message()));
}

SlotTokens Read(const v1::SlotTokens& message) {
  SlotTokens slot{.slot = message.slot(), .epoch = message.epoch()};
  for (const v1::SampledToken& token : message.tokens()) slot.tokens.push_back(Read(token));
  for (const v1::SampledToken& token : message.prompt_tokens()) slot.prompt_tokens.push_back(Read(token));
  if (message.has_error()) slot.status = Read(message.error());
  return slot;
}

}  // namespace

v1::Step ToMessage(const StepCommand& command) {
  v1::Step message;
  message.set_number(command.number);
  message.mutable_released_slots()->Add(command.releases.begin(), command.releases.end());
  for (const Admission& admission : command.admissions) Write(admission, message.add_admits());
  for (const StepItem& item : command.items) Write(item, message.add_items());
  return message;
}

StepResult FromMessage(const v1::StepResult& message) {
  StepResult result;
  result.number = message.step();
  result.duration = DurationFrom(message.duration());
  for (const v1::SlotTokens& slot : message.slots()) result.slots.push_back(Read(slot));
  return result;
}

}  // namespace trireme::server
