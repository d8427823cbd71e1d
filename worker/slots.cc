#include "worker/slots.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

template <typename... Parts>
absl::Status Contradiction(std::uint32_t slot, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("slot ", slot, ": ", parts...));
}

}  // namespace

SlotTable::SlotTable(const SlotLimits& limits) : limits_(limits), slots_(limits.max_num_seqs) {
  const std::size_t num_groups = limits_.num_kv_blocks.size();
  for (Slot& slot : slots_) {
    slot.tokens.reserve(limits_.max_model_len);
    slot.block_tables.resize(num_groups);
    for (auto& table : slot.block_tables) table.reserve(BlocksFor(limits_.max_model_len));
  }
  batch_.token_ids.reserve(limits_.max_num_batched_tokens);
  batch_.positions.reserve(limits_.max_num_batched_tokens);
  batch_.sequences.resize(num_groups);
  for (auto& sequences : batch_.sequences) sequences.reserve(limits_.max_num_seqs);
  batch_.logit_row_indices.reserve(limits_.max_logit_rows);
  batch_.logit_rows.reserve(limits_.max_logit_rows);
}

std::size_t SlotTable::BlocksFor(std::uint32_t num_tokens) const {
  return (std::size_t{num_tokens} + limits_.kv_block_tokens - 1) / limits_.kv_block_tokens;
}

absl::Status SlotTable::Apply(const v1::Step& step) {
  ClearBatch();
  for (std::uint32_t slot : step.released_slots()) RETURN_IF_ERROR(Release(slot));
  for (const v1::Admit& admit : step.admits()) RETURN_IF_ERROR(Admit(admit));
  for (const v1::StepItem& item : step.items()) RETURN_IF_ERROR(AddItem(item));
  return absl::OkStatus();
}

void SlotTable::Append(const LogitRow& row, std::int32_t token) {
  Slot& slot = slots_[row.slot];
  CHECK_LT(slot.tokens.size(), limits_.max_model_len);
  slot.tokens.push_back(token);
}

void SlotTable::ClearBatch() {
  batch_.token_ids.clear();
  batch_.positions.clear();
  for (auto& sequences : batch_.sequences) sequences.clear();
  batch_.logit_row_indices.clear();
  batch_.logit_rows.clear();
  for (Slot& slot : slots_) slot.is_in_step = false;
}

absl::Status SlotTable::CheckInRange(std::uint32_t slot_index) const {
  if (slot_index < slots_.size()) return absl::OkStatus();
  return Contradiction(slot_index, "there are ", slots_.size(), " slots");
}

absl::Status SlotTable::Release(std::uint32_t slot_index) {
  RETURN_IF_ERROR(CheckInRange(slot_index));
  Slot& slot = slots_[slot_index];
  if (!slot.is_used) return Contradiction(slot_index, "released, but it is not in use");
  slot.is_used = false;
  return absl::OkStatus();
}

absl::Status SlotTable::Admit(const v1::Admit& admit) {
  RETURN_IF_ERROR(CheckInRange(admit.slot()));
  Slot& slot = slots_[admit.slot()];
  if (slot.is_used) return Contradiction(admit.slot(), "admitted, but in use since epoch ", slot.epoch);
  if (admit.epoch() <= slot.epoch) {
    return Contradiction(admit.slot(), "admitted at epoch ", admit.epoch(), ", but the last epoch was ", slot.epoch);
  }
  RETURN_IF_ERROR(AdmitTokens(admit, slot));
  absl::StatusOr<SamplingSettings> settings = SamplingSettingsFrom(admit.sampling(), limits_.vocabulary);
  if (!settings.ok()) return Contradiction(admit.slot(), std::string(settings.status().message()));
  slot.settings = *std::move(settings);
  RETURN_IF_ERROR(AdmitNumbers(admit, slot));
  slot.is_used = true;
  slot.epoch = admit.epoch();
  for (auto& table : slot.block_tables) table.clear();
  return absl::OkStatus();
}

absl::Status SlotTable::AdmitTokens(const v1::Admit& admit, Slot& slot) const {
  const std::uint32_t num_tokens = static_cast<std::uint32_t>(admit.tokens_size());
  if (num_tokens == 0 || num_tokens > limits_.max_model_len) {
    return Contradiction(admit.slot(), "admitted with ", num_tokens, " tokens; there must be 1 to ",
                         limits_.max_model_len);
  }
  slot.tokens.clear();
  for (std::uint32_t token : admit.tokens()) {
    if (token >= limits_.vocabulary) {
      return Contradiction(admit.slot(), "token id ", token, " is beyond the vocabulary of ", limits_.vocabulary);
    }
    slot.tokens.push_back(static_cast<std::int32_t>(token));
  }
  return absl::OkStatus();
}

absl::Status SlotTable::AdmitNumbers(const v1::Admit& admit, Slot& slot) const {
  const auto num_tokens = static_cast<std::uint32_t>(slot.tokens.size());
  slot.num_prompt_tokens = admit.num_prompt_tokens();
  slot.num_computed = admit.num_computed();
  if (slot.num_prompt_tokens == 0 || slot.num_prompt_tokens > num_tokens) {
    return Contradiction(admit.slot(), slot.num_prompt_tokens, " of ", num_tokens, " tokens are the prompt");
  }
  if (slot.num_computed >= num_tokens) {
    return Contradiction(admit.slot(), "admitted with ", slot.num_computed, " of ", num_tokens,
                         " tokens computed; the last one never is");
  }
  slot.first_prompt_logprob = slot.num_prompt_tokens;
  if (!slot.settings.num_prompt_logprobs) return absl::OkStatus();
  slot.first_prompt_logprob = admit.first_prompt_logprob();
  const bool has_computed_too_much =
      slot.first_prompt_logprob < slot.num_prompt_tokens && slot.first_prompt_logprob <= slot.num_computed;
  if (slot.first_prompt_logprob == 0 || has_computed_too_much) {
    return Contradiction(admit.slot(), "log-probabilities of the prompt are wanted from token ",
                         slot.first_prompt_logprob, " on, with ", slot.num_computed,
                         " computed already; it must be a later one, and not the first");
  }
  return absl::OkStatus();
}

absl::Status SlotTable::AddItem(const v1::StepItem& item) {
  RETURN_IF_ERROR(CheckInRange(item.slot()));
  Slot& slot = slots_[item.slot()];
  RETURN_IF_ERROR(CheckItem(item, slot));
  RETURN_IF_ERROR(AddBlocks(item, slot));
  return AddRows(item, slot);
}

absl::Status SlotTable::CheckItem(const v1::StepItem& item, const Slot& slot) const {
  if (!slot.is_used) return Contradiction(item.slot(), "has work, but nothing is admitted to it");
  if (slot.is_in_step) return Contradiction(item.slot(), "has two items in one step");
  const std::size_t known = slot.tokens.size();
  if (item.num_tokens() == 0 || item.num_tokens() > known - slot.num_computed) {
    return Contradiction(item.slot(), item.num_tokens(), " tokens are to be computed, but ", slot.num_computed, " of ",
                         known, " are computed already");
  }
  if (item.num_tokens() > limits_.max_num_batched_tokens - batch_.num_rows()) {
    return Contradiction(item.slot(), item.num_tokens(), " tokens after ", batch_.num_rows(),
                         " of the same step; a step has at most ", limits_.max_num_batched_tokens);
  }
  if (slot.num_computed + item.num_tokens() == known && known == limits_.max_model_len) {
    return Contradiction(item.slot(), "a token would be sampled after the last of ", limits_.max_model_len);
  }
  return absl::OkStatus();
}

absl::Status SlotTable::AddBlocks(const v1::StepItem& item, Slot& slot) {
  const std::size_t num_groups = slot.block_tables.size();
  if (item.new_blocks_size() != 0 && static_cast<std::size_t>(item.new_blocks_size()) != num_groups) {
    return Contradiction(item.slot(), "new blocks for ", item.new_blocks_size(), " KV groups; there are ", num_groups);
  }
  for (int g = 0; g < item.new_blocks_size(); ++g) {
    for (std::uint32_t block : item.new_blocks(g).blocks()) {
      if (block >= limits_.num_kv_blocks[g]) {
        return Contradiction(item.slot(), "block ", block, " of KV group ", g, ", which has ",
                             limits_.num_kv_blocks[g]);
      }
      if (slot.block_tables[g].size() == BlocksFor(limits_.max_model_len)) {
        return Contradiction(item.slot(), "more blocks of KV group ", g, " than ", limits_.max_model_len,
                             " tokens need");
      }
      slot.block_tables[g].push_back(static_cast<std::int32_t>(block));
    }
  }
  const std::uint32_t context = slot.num_computed + item.num_tokens();
  for (std::size_t g = 0; g < num_groups; ++g) {
    if (slot.block_tables[g].size() >= BlocksFor(context)) continue;
    return Contradiction(item.slot(), context, " tokens need ", BlocksFor(context), " blocks in KV group ", g,
                         ", but it has ", slot.block_tables[g].size());
  }
  return absl::OkStatus();
}

absl::Status SlotTable::AddRows(const v1::StepItem& item, Slot& slot) {
  for (std::size_t g = 0; g < slot.block_tables.size(); ++g) {
    batch_.sequences[g].push_back({.query_begin = batch_.num_rows(),
                                   .num_queries = item.num_tokens(),
                                   .context_length = slot.num_computed,
                                   .block_table = slot.block_tables[g].data()});
  }
  const std::uint32_t begin = slot.num_computed, end = begin + item.num_tokens();
  for (std::uint32_t position = begin; position < end; ++position) {
    batch_.token_ids.push_back(slot.tokens[position]);
    batch_.positions.push_back(static_cast<std::int32_t>(position));
  }
  slot.num_computed = end;
  slot.is_in_step = true;
  return AddLogitRows(item.slot(), begin, slot);
}

// Of the rows [begin, slot.num_computed) of the slot, which are the batch's last: those which a prompt token follows
// whose log-probability is wanted, and the one of the last known token.
absl::Status SlotTable::AddLogitRows(std::uint32_t slot_index, std::uint32_t begin, Slot& slot) {
  const std::int64_t row_of_token_0 = batch_.num_rows() - slot.num_computed;
  for (std::uint32_t next = begin + 1; next <= slot.num_computed; ++next) {
    const bool is_sampled = next == slot.tokens.size();
    if (!is_sampled && (next < slot.first_prompt_logprob || next >= slot.num_prompt_tokens)) continue;
    if (batch_.logit_rows.size() == limits_.max_logit_rows) {
      return Contradiction(slot_index, "logits of one more row are wanted; a step gives those of at most ",
                           limits_.max_logit_rows);
    }
    batch_.logit_row_indices.push_back(static_cast<std::int32_t>(row_of_token_0 + next - 1));
    LogitRow& row = batch_.logit_rows.emplace_back();
    row = {.slot = slot_index,
           .epoch = slot.epoch,
           .history = {std::span(slot.tokens).first(next), slot.num_prompt_tokens},
           .settings = &slot.settings};
    if (!is_sampled) row.prompt_token = slot.tokens[next];
  }
  return absl::OkStatus();
}

}  // namespace trireme::worker
