#include "worker/cpu_logits.h"

#include <algorithm>

#include "base/check.h"

namespace trireme::worker {
namespace {

namespace cpu = kernels::cpu;

// Ids that one call of a kernel looks at.
constexpr std::int64_t kIdsPerPiece = 4096;

std::int64_t NumPieces(const Activations& logits) { return (logits.width + kIdsPerPiece - 1) / kIdsPerPiece; }

cpu::LogitShard RowOf(const Activations& logits, std::int32_t begin, std::int64_t row) {
  return {{logits.data + row * logits.width, static_cast<std::size_t>(logits.width)}, begin};
}

cpu::LogitShard PieceOf(const cpu::LogitShard& row, std::int64_t piece) {
  const std::size_t begin = piece * kIdsPerPiece;
  const std::size_t size = std::min<std::size_t>(kIdsPerPiece, row.logits.size() - begin);
  return {row.logits.subspan(begin, size), row.begin + static_cast<std::int32_t>(begin)};
}

LogitAnswer AnswerPiece(const cpu::LogitShard& piece, const LogitQuestion& question) {
  LogitAnswer answer;
  answer.best =
      question.temperature > 0 ? cpu::GumbelBest(piece, question.temperature, question.draw) : cpu::LocalBest(piece);
  const bool has_best = answer.best != TokenScore{};  // none if all are NaN
  if (has_best) answer.best_logit = piece.logits[answer.best.id - piece.begin];
  if (question.wants_log_sum_exp) answer.log_sum_exp = cpu::LocalLogSumExp(piece, 1);
  if (question.wants_scaled_log_sum_exp) {
    answer.scaled_log_sum_exp = cpu::LocalLogSumExp(piece, question.temperature);
  }
  return answer;
}

std::int64_t NumPreceding(const cpu::LogitShard& row, const TokenScore& chosen) {
  std::int64_t count = 0;
  for (float logit : row.logits) count += logit > chosen.score;
  const std::int64_t num_lower_ids =
      std::clamp<std::int64_t>(chosen.id - row.begin, 0, static_cast<std::int64_t>(row.logits.size()));
  for (float logit : row.logits.first(num_lower_ids)) count += logit == chosen.score;
  return count;
}

}  // namespace

void CpuLogits::Answer(const Activations& logits, std::int32_t begin, std::span<const LogitQuestion> questions,
                       std::span<LogitAnswer> answers, std::span<TokenScore> candidates) {
  CHECK_EQ(logits.rows, static_cast<std::int64_t>(questions.size()));
  CHECK_EQ(questions.size(), answers.size());
  AnswerPieces(logits, begin, questions);
  const std::int64_t num_pieces = NumPieces(logits);
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    answers[row] = {};
    for (std::int64_t piece = 0; piece < num_pieces; ++piece) {
      answers[row] = JoinAnswers(answers[row], piece_answers_[row * num_pieces + piece]);
    }
  }
  ListCandidates(logits, begin, questions, candidates);
}

void CpuLogits::AnswerPieces(const Activations& logits, std::int32_t begin, std::span<const LogitQuestion> questions) {
  const std::int64_t num_pieces = NumPieces(logits);
  piece_answers_.resize(logits.rows * num_pieces);
  pool_.ParallelForEach(logits.rows * num_pieces, [&](std::int64_t i) {
    const std::int64_t row = i / num_pieces;
    piece_answers_[i] = AnswerPiece(PieceOf(RowOf(logits, begin, row), i % num_pieces), questions[row]);
  });
}

void CpuLogits::ListCandidates(const Activations& logits, std::int32_t begin, std::span<const LogitQuestion> questions,
                               std::span<TokenScore> candidates) {
  std::fill(candidates.begin(), candidates.end(), TokenScore{});
  pool_.ParallelForEach(logits.rows, [&](std::int64_t row) {
    std::size_t offset = 0;
    for (std::int64_t before = 0; before < row; ++before) offset += questions[before].num_candidates;
    const std::size_t count = questions[row].num_candidates;
    if (count > 0) cpu::TopCandidates(RowOf(logits, begin, row), candidates.subspan(offset, count));
  });
}

void CpuLogits::CountPreceding(const Activations& logits, std::int32_t begin, std::span<const TokenScore> chosen,
                               std::span<std::int64_t> counts) {
  CHECK_EQ(logits.rows, static_cast<std::int64_t>(chosen.size()));
  CHECK_EQ(chosen.size(), counts.size());
  pool_.ParallelForEach(logits.rows, [&](std::int64_t row) {
    const bool is_asked = chosen[row] != TokenScore{};
    counts[row] = is_asked ? NumPreceding(RowOf(logits, begin, row), chosen[row]) : 0;
  });
}

}  // namespace trireme::worker
