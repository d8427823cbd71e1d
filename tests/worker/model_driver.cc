#include "tests/worker/model_driver.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::worker {

ExecutorOptions SmallOptions(const std::filesystem::path& model) {
  return {.model_path = model,
          .plan_rules = {},
          .max_model_len = 256,
          .max_num_seqs = 8,
          .max_num_batched_tokens = 128,
          .max_logit_rows = 16,
          .kv_block_tokens = 16,
          .kv_cache_bytes = 4 << 20,
          .num_threads = 1};
}

v1::Sampling Greedy() {
  v1::Sampling sampling;
  sampling.set_top_p(1);
  sampling.set_typical_p(1);
  sampling.set_repetition_penalty(1);
  return sampling;
}

v1::Sampling GreedyWithLogprobs(std::uint32_t num_logprobs) {
  v1::Sampling sampling = Greedy();
  sampling.set_logprobs(num_logprobs);
  return sampling;
}

ModelDriver::ModelDriver(Executor& executor, const ExecutorOptions& options) : executor_(executor), options_(options) {
  // Given out from the middle, so that neighbours in a sequence are not neighbours in memory.
  const std::uint32_t num_blocks = executor.sizes().num_kv_blocks.at(0);
  for (std::uint32_t i = 0; i < num_blocks; ++i) free_blocks_.push_back(i % 2 == 0 ? i / 2 : num_blocks - 1 - i / 2);
  next_.set_number(1);
}

void ModelDriver::Admit(std::uint32_t slot, const std::vector<std::uint32_t>& tokens, const v1::Sampling& sampling,
                        std::uint32_t num_prompt_tokens) {
  CHECK(slots_.emplace(slot, Slot()).second) << "slot " << slot << " is in use";
  v1::Admit& admit = *next_.add_admits();
  admit.set_slot(slot);
  admit.set_epoch(++epoch_);
  admit.mutable_tokens()->Add(tokens.begin(), tokens.end());
  const auto num_tokens = static_cast<std::uint32_t>(tokens.size());
  admit.set_num_prompt_tokens(num_prompt_tokens == 0 ? num_tokens : num_prompt_tokens);
  admit.set_first_prompt_logprob(1);
  *admit.mutable_sampling() = sampling;
}

void ModelDriver::AdmitBehind(std::uint32_t owner, std::uint32_t num_computed, std::uint32_t slot,
                              const std::vector<std::uint32_t>& tokens, const v1::Sampling& sampling) {
  CHECK_EQ(num_computed % options_.kv_block_tokens, 0u);
  Admit(slot, tokens, sampling);
  v1::Admit& admit = *next_.mutable_admits(next_.admits_size() - 1);
  admit.set_num_computed(num_computed);
  admit.set_first_prompt_logprob(num_computed + 1);
  Slot& admitted = slots_.at(slot);
  admitted.num_computed = num_computed;
  admitted.num_shared = num_computed / options_.kv_block_tokens;
  const std::vector<std::uint32_t>& blocks = slots_.at(owner).blocks;
  admitted.shared_blocks.assign(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(admitted.num_shared));
}

void ModelDriver::Release(std::uint32_t slot) {
  const Slot& released = slots_.at(slot);
  free_blocks_.insert(free_blocks_.end(), released.blocks.begin(), released.blocks.end());
  slots_.erase(slot);
  next_.add_released_slots(slot);
}

void ModelDriver::AddItem(const Work& work, v1::Step& step) {
  Slot& slot = slots_.at(work.slot);
  v1::StepItem& item = *step.add_items();
  item.set_slot(work.slot);
  item.set_num_tokens(work.num_tokens);
  slot.num_computed += work.num_tokens;
  v1::BlockList& new_blocks = *item.add_new_blocks();
  new_blocks.mutable_blocks()->Add(slot.shared_blocks.begin(), slot.shared_blocks.end());
  slot.shared_blocks.clear();
  while ((slot.num_shared + slot.blocks.size()) * options_.kv_block_tokens < slot.num_computed) {
    CHECK(!free_blocks_.empty()) << "the test asks for too much";
    slot.blocks.push_back(free_blocks_.back());
    new_blocks.add_blocks(free_blocks_.back());
    free_blocks_.pop_back();
  }
}

absl::StatusOr<v1::StepResult> ModelDriver::Step(const std::vector<Work>& work) {
  for (const Work& item : work) AddItem(item, next_);
  ASSIGN_OR_RETURN(v1::StepResult result, executor_.Run(next_));
  CHECK_EQ(result.step(), next_.number());
  for (const v1::SlotTokens& tokens : result.slots()) {
    Slot& slot = slots_.at(tokens.slot());
    slot.sampled.insert(slot.sampled.end(), tokens.tokens().begin(), tokens.tokens().end());
    slot.prompt_tokens.insert(slot.prompt_tokens.end(), tokens.prompt_tokens().begin(), tokens.prompt_tokens().end());
  }
  const std::uint64_t number = next_.number() + 1;
  next_.Clear();
  next_.set_number(number);
  return result;
}

std::vector<std::uint32_t> ModelDriver::SampledIds(std::uint32_t slot) const {
  std::vector<std::uint32_t> ids;
  for (const v1::SampledToken& token : sampled(slot)) ids.push_back(token.token_id());
  return ids;
}

absl::Status ModelDriver::Generate(std::uint32_t slot, const std::vector<std::uint32_t>& prompt,
                                   const v1::Sampling& sampling, std::uint32_t num_tokens, std::uint32_t chunk,
                                   std::uint32_t num_prompt_tokens) {
  Admit(slot, prompt, sampling, num_prompt_tokens);
  const auto prompt_size = static_cast<std::uint32_t>(prompt.size());
  for (std::uint32_t begin = 0; begin < prompt_size; begin += chunk) {
    RETURN_IF_ERROR(Step({{slot, std::min(chunk, prompt_size - begin)}}).status());
  }
  while (sampled(slot).size() < num_tokens) RETURN_IF_ERROR(Step({{slot, 1}}).status());
  return absl::OkStatus();
}

}  // namespace trireme::worker
