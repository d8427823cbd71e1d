#include "server/coordinator/step_messages.h"

#include <utility>

namespace trireme::server {
namespace {

namespace v1 = worker::v1;

void Write(const SamplingParams& params, v1::Sampling* message) {
  message->set_temperature(params.temperature);
  message->set_top_k(params.top_k);
  message->set_top_p(params.top_p);
  message->set_seed(params.seed);
  if (params.logprobs) message->set_logprobs(*params.logprobs);
}

void Write(const Admission& admission, v1::Admit* message) {
  message->set_slot(admission.slot);
  message->set_epoch(admission.epoch);
  message->mutable_tokens()->Add(admission.tokens.begin(), admission.tokens.end());
  Write(admission.sampling, message->mutable_sampling());
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

SlotTokens Read(const v1::SlotTokens& message) {
  SlotTokens slot{.slot = message.slot(), .epoch = message.epoch(), .tokens = {}, .prompt_tokens = {}};
  for (const v1::SampledToken& token : message.tokens()) slot.tokens.push_back(Read(token));
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
  result.duration = absl::Seconds(message.duration().seconds()) + absl::Nanoseconds(message.duration().nanos());
  for (const v1::SlotTokens& slot : message.slots()) result.slots.push_back(Read(slot));
  return result;
}

}  // namespace trireme::server
