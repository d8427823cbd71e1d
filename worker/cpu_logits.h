// What a CPU rank answers about its logits: the kernels of kernels/sampling.h over many rows at once.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "worker/logit_answers.h"

namespace trireme::worker {

class CpuLogits {
 public:
  explicit CpuLogits(kernels::cpu::ThreadPool& pool) : pool_(pool) {}  // the pool outlives it

  // As Ops::AnswerLogits and Ops::CountPreceding. Rows are cut at fixed ids and joined in their order, so
  // bits do not depend on the number of threads. REQUIRES: the rows of a call are of one size.
  void Answer(std::int32_t begin, std::span<const LogitQuestion> questions, std::span<LogitAnswer> answers,
              std::span<TokenScore> candidates);
  void CountPreceding(std::int32_t begin, std::span<const RankQuestion> questions, std::span<std::int64_t> counts);

 private:
  void AnswerPieces(std::int32_t begin, std::span<const LogitQuestion> questions, std::int64_t num_pieces);
  void ListCandidates(std::int32_t begin, std::span<const LogitQuestion> questions, std::span<TokenScore> candidates);

  kernels::cpu::ThreadPool& pool_;
  std::vector<LogitAnswer> piece_answers_;  // [questions, pieces]; grows to the largest batch seen
};

}  // namespace trireme::worker
