#include "worker/cpu_logits.h"

#include <algorithm>

#include "base/check.h"

namespace trireme::worker {
namespace {

namespace cpu = kernels::cpu;

// Ids that one call of a kernel looks at.
constexpr std::int64_t kIdsPerPiece = 4096;

cpu::LogitShard PieceOf(const cpu::LogitShard& row, std::int64_t piece) {
  const std::size_t begin = piece * kIdsPerPiece;
  const std::size_t size = std::min<std::size_t>(kIdsPerPiece, row.logits.size() - begin);
  return {row.logits.subspan(begin, size), row.begin + static_cast<std::int32_t>(begin)};
}

bool Holds(const cpu::LogitShard& shard, std::int32_t id) {
  return id >= shard.begin && id - shard.begin < std::ssize(shard.logits);
}

LogitAnswer AnswerPiece(const cpu::LogitShard& piece, const LogitQuestion& question) {
  LogitAnswer answer;
  answer.best = question.draw ? cpu::GumbelBest(piece, question.temperature, *question.draw) : cpu::LocalBest(piece);
  const bool has_best = answer.best != TokenScore{};  // none if all are NaN
  if (has_best) answer.best_logit = piece.logits[answer.best.id - piece.begin];
  if (question.token_id && Holds(piece, *question.token_id)) {
    answer.token_logit = piece.logits[*question.token_id - piece.begin];
  }
  answer.are_numbers = cpu::AreNumbers(piece.logits);
  if (question.wants_log_sum_exp) answer.log_sum_exp = cpu::LocalLogSumExp(piece, 1);
  if (question.wants_scaled_log_sum_exp) {
    answer.scaled_log_sum_exp = cpu::LocalLogSumExp(piece, question.temperature);
  }
  return answer;
}

std::int64_t NumPreceding(const cpu::LogitShard& row, const TokenScore& token) {
  std::int64_t count = 0;
  for (float logit : row.logits) count += logit > token.score;
  const std::int64_t num_lower_ids =
      std::clamp<std::int64_t>(token.id - row.begin, 0, static_cast<std::int64_t>(row.logits.size()));
  for (float logit : row.logits.first(num_lower_ids)) count += logit == token.score;
  return count;
}

}  // namespace

void CpuLogits::Answer(std::int32_t begin, std::span<const LogitQuestion> questions, std::span<LogitAnswer> answers,
                       std::span<TokenScore> candidates) {
  CHECK_EQ(questions.size(), answers.size());
  const std::int64_t width = questions.empty() ? 0 : std::ssize(questions[0].logits);
  for (const LogitQuestion& question : questions) CHECK_EQ(std::ssize(question.logits), width);
  const std::int64_t num_pieces = (width + kIdsPerPiece - 1) / kIdsPerPiece;
  AnswerPieces(begin, questions, num_pieces);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    answers[i] = {};
    for (std::int64_t piece = 0; piece < num_pieces; ++piece) {
      answers[i] = JoinAnswers(answers[i], piece_answers_[i * num_pieces + piece]);
    }
  }
  ListCandidates(begin, questions, candidates);
}

void CpuLogits::AnswerPieces(std::int32_t begin, std::span<const LogitQuestion> questions, std::int64_t num_pieces) {
  piece_answers_.resize(questions.size() * num_pieces);
  pool_.ParallelForEach(std::ssize(piece_answers_), [&](std::int64_t i) {
    const LogitQuestion& question = questions[i / num_pieces];
    piece_answers_[i] = AnswerPiece(PieceOf({question.logits, begin}, i % num_pieces), question);
  });
}

void CpuLogits::ListCandidates(std::int32_t begin, std::span<const LogitQuestion> questions,
                               std::span<TokenScore> candidates) {
  std::fill(candidates.begin(), candidates.end(), TokenScore{});
  pool_.ParallelForEach(std::ssize(questions), [&](std::int64_t i) {
    std::size_t offset = 0;
    for (const LogitQuestion& before : questions.first(i)) offset += before.num_candidates;
    const std::size_t count = questions[i].num_candidates;
    if (count > 0) cpu::TopCandidates({questions[i].logits, begin}, candidates.subspan(offset, count));
  });
}

void CpuLogits::CountPreceding(std::int32_t begin, std::span<const RankQuestion> questions,
                               std::span<std::int64_t> counts) {
  CHECK_EQ(questions.size(), counts.size());
  pool_.ParallelForEach(std::ssize(questions), [&](std::int64_t i) {
    counts[i] = NumPreceding({questions[i].logits, begin}, questions[i].token);
  });
}

}  // namespace trireme::worker
