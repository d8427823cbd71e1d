// What a sequence's settings and history change of the logits of its next token, for the ids that a rank holds.
//
// Made anew for each token from the whole history: there is no state to keep right when a sequence is preempted, comes
// back or moves, and its cost (a pass over the history) is small beside that of a row of logits.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling.h"
#include "sharding/placement/interval.h"
#include "worker/batch.h"

namespace trireme::worker {

// One thread at a time. Nothing is allocated after construction.
class LogitEditor {
 public:
  // Memory for an edit of each id of `part`.
  explicit LogitEditor(sharding::Interval part);

  // One edit for each id of the part that anything is done to. Tokens in prompt or output are repeated ones if there
  // is a repetition penalty, those in the output are counted if there is a frequency or presence penalty. Masked are
  // the last token of a bad word whose others end the history, and ending ids before min_tokens are generated.
  // Valid until the next call.
  std::span<const kernels::cpu::LogitEdit> EditsFor(const SamplingSettings& settings, const History& history);

 private:
  // That of `id`, made if there is none yet; nothing for an id that is not in the part.
  kernels::cpu::LogitEdit* Find(std::int32_t id);
  void Mask(std::int32_t id);
  void AddRepetitions(const SamplingSettings& settings, const History& history);
  void AddMasks(const SamplingSettings& settings, const History& history);

  const sharding::Interval part_;
  std::vector<kernels::cpu::LogitEdit> edits_;
  std::vector<std::int32_t> index_of_;  // [part]: into edits_, or kNone
};

kernels::cpu::LogitPenalties PenaltiesOf(const SamplingSettings& settings);

}  // namespace trireme::worker
