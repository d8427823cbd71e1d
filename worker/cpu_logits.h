// What a CPU rank answers about its logits: the kernels of kernels/sampling.h over many rows at once.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "worker/logit_answers.h"
#include "worker/ops.h"

namespace trireme::worker {

class CpuLogits {
 public:
  explicit CpuLogits(kernels::cpu::ThreadPool& pool) : pool_(pool) {}  // the pool outlives it

  // As Ops::AnswerLogits and Ops::CountPreceding. Rows are cut at fixed ids and joined in their order, so
  // bits do not depend on the number of threads.
  void Answer(const Activations& logits, std::int32_t begin, std::span<const LogitQuestion> questions,
              std::span<LogitAnswer> answers, std::span<TokenScore> candidates);
  void CountPreceding(const Activations& logits, std::int32_t begin, std::span<const TokenScore> chosen,
                      std::span<std::int64_t> counts);

 private:
  void AnswerPieces(const Activations& logits, std::int32_t begin, std::span<const LogitQuestion> questions);
  void ListCandidates(const Activations& logits, std::int32_t begin, std::span<const LogitQuestion> questions,
                      std::span<TokenScore> candidates);

  kernels::cpu::ThreadPool& pool_;
  std::vector<LogitAnswer> piece_answers_;  // [rows, pieces]; grows to the largest batch seen
};

}  // namespace trireme::worker
