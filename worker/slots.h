// The sequences that this rank holds. The front end sends deltas; the table puts them together into batches.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "trireme/worker/v1/control.pb.h"
#include "worker/batch.h"
#include "worker/sampling_settings.h"

namespace trireme::worker {

struct SlotLimits {
  std::uint32_t max_num_seqs = 0;            // slots
  std::uint32_t max_model_len = 0;           // tokens of a sequence
  std::uint32_t max_num_batched_tokens = 0;  // rows of a step
  std::uint32_t max_logit_rows = 0;          // of these, whose logits are wanted
  std::uint32_t kv_block_tokens = 0;
  std::vector<std::uint32_t> num_kv_blocks;  // per KV group
  std::int64_t vocabulary = 0;
};

// One thread at a time. Nothing is allocated after construction, but what the lists of an admission's settings need.
class SlotTable {
 public:
  explicit SlotTable(const SlotLimits& limits);

  // Releases, then admits, then makes the batch of the step's items, which are taken as computed from then on.
  //
  // InvalidArgument, naming the slot and the numbers, if the step contradicts the table: a slot out of range,
  // released twice, admitted while in use or to an epoch that is not later, with an id beyond the vocabulary or
  // settings that are out of range; an item of more tokens than are known, without blocks for them, twice for a slot;
  // more rows than the limits say. The table is of no use after that: front end and worker disagree.
  absl::Status Apply(const v1::Step& step);

  // Of the last Apply. Valid until the next.
  const Batch& batch() const { return batch_; }

  // `token` is what was sampled for `row`, which is one of batch().logit_rows; it becomes the last of its slot. A slot
  // that could not sample takes any token, so that steps which are on their way to it stay valid.
  void Append(const LogitRow& row, std::int32_t token);

 private:
  struct Slot {
    bool is_used = false;
    bool is_in_step = false;
    std::uint64_t epoch = 0;  // of the last admission
    std::uint32_t num_computed = 0;
    std::uint32_t num_prompt_tokens = 0;
    std::uint32_t first_prompt_logprob = 0;  // those of tokens [this, num_prompt_tokens) are wanted
    std::vector<std::int32_t> tokens;        // never more than it was reserved for: rows point into it
    SamplingSettings settings;
    std::vector<std::vector<std::int32_t>> block_tables;  // per KV group
  };

  absl::Status Release(std::uint32_t slot_index);
  absl::Status Admit(const v1::Admit& admit);
  absl::Status AdmitTokens(const v1::Admit& admit, Slot& slot) const;
  absl::Status AdmitNumbers(const v1::Admit& admit, Slot& slot) const;
  absl::Status AddItem(const v1::StepItem& item);
  absl::Status CheckItem(const v1::StepItem& item, const Slot& slot) const;
  absl::Status AddBlocks(const v1::StepItem& item, Slot& slot);
  absl::Status AddRows(const v1::StepItem& item, Slot& slot);
  absl::Status AddLogitRows(std::uint32_t slot_index, std::uint32_t begin, Slot& slot);
  std::size_t BlocksFor(std::uint32_t num_tokens) const;  // of one KV group
  absl::Status CheckInRange(std::uint32_t slot_index) const;
  void ClearBatch();

  const SlotLimits limits_;
  std::vector<Slot> slots_;
  Batch batch_;
};

}  // namespace trireme::worker
