#include "worker/sampler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

GumbelDraw DrawOf(const SampledRow& row) { return {.seed = row.settings.seed, .position = row.position, .sample = 0}; }

bool NeedsRanking(const SamplingSettings& settings) { return !settings.is_greedy() && !settings.keeps_all(); }

}  // namespace

absl::StatusOr<std::unique_ptr<Sampler>> Sampler::Create(const SamplerOptions& options, Ops& ops,
                                                         Communicator& communicator) {
  CHECK(options.max_candidates >= options.num_candidates &&
        options.max_candidates >= static_cast<std::int32_t>(kMaxLogprobs))
      << options.max_candidates;
  ASSIGN_OR_RETURN(std::unique_ptr<LogitExchange> exchange,
                   LogitExchange::Create({.vocabulary = options.vocabulary,
                                          .local_vocabulary = options.local_vocabulary,
                                          .max_rows = options.max_rows,
                                          .max_candidates = options.max_candidates},
                                         ops, communicator));
  return absl::WrapUnique(new Sampler(options, std::move(exchange)));
}

Sampler::Sampler(const SamplerOptions& options, std::unique_ptr<LogitExchange> exchange)
    : options_(options), exchange_(std::move(exchange)) {
  questions_.reserve(options.max_rows);
  chosen_.reserve(options.max_rows);
  num_preceding_.reserve(options.max_rows);
  top_.reserve(options.max_rows * kMaxLogprobs);
  tokens_.reserve(options.max_rows);
}

absl::StatusOr<std::span<const SampledToken>> Sampler::Sample(const Activations& logits,
                                                              std::span<const SampledRow> rows) {
  CHECK_EQ(logits.rows, static_cast<std::int64_t>(rows.size()));
  questions_.clear();
  for (const SampledRow& row : rows) questions_.push_back(QuestionFor(row));
  RETURN_IF_ERROR(exchange_->Ask(logits, questions_));

  tokens_.clear();
  chosen_.clear();
  bool wants_logprobs = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSIGN_OR_RETURN(const TokenScore token, Choose(logits, rows[i], i));
    tokens_.push_back({.id = token.id});
    chosen_.push_back(rows[i].settings.num_logprobs ? token : TokenScore{});
    wants_logprobs |= rows[i].settings.num_logprobs.has_value();
  }
  if (wants_logprobs) RETURN_IF_ERROR(AddLogprobs(logits, rows));
  return tokens_;
}

LogitQuestion Sampler::QuestionFor(const SampledRow& row) const {
  const SamplingSettings& settings = row.settings;
  return {.temperature = settings.temperature,
          .draw = DrawOf(row),
          .wants_log_sum_exp = settings.num_logprobs.has_value(),
          .wants_scaled_log_sum_exp = NeedsRanking(settings) && settings.top_k == 0,
          .num_candidates = NumCandidates(settings)};
}

std::int32_t Sampler::NumCandidates(const SamplingSettings& settings) const {
  constexpr std::uint32_t kRoomForTies = 8;  // behind the k-th
  std::uint32_t count = settings.num_logprobs.value_or(0);
  if (NeedsRanking(settings)) {
    const auto max_top_k = static_cast<std::uint32_t>(options_.max_candidates) - kRoomForTies;
    count = std::max(count, std::min(settings.top_k, max_top_k) + kRoomForTies);
    count = std::max(count, static_cast<std::uint32_t>(options_.num_candidates));
  }
  return static_cast<std::int32_t>(count);
}

absl::StatusOr<TokenScore> Sampler::Choose(const Activations& logits, const SampledRow& row, std::size_t index) {
  const LogitAnswer& answer = exchange_->answer(index);
  if (answer.best == TokenScore{}) {
    return absl::InternalError(absl::StrCat("no logit of slot ", row.slot, " at position ", row.position,
                                            " is a finite number: weights or activations have overflowed"));
  }
  if (NeedsRanking(row.settings)) return DrawFromKept(logits, row, index);
  return TokenScore{answer.best_logit, answer.best.id};
}

absl::StatusOr<TokenScore> Sampler::DrawFromKept(const Activations& logits, const SampledRow& row, std::size_t index) {
  const LogSumExp& scaled = exchange_->answer(index).scaled_log_sum_exp;
  Ranking ranking = exchange_->Candidates(index);
  std::optional<std::size_t> num_kept = NumKept(ranking, row.settings, scaled);
  if (!num_kept) {
    ASSIGN_OR_RETURN(ranking, exchange_->RankWholeRow(logits, static_cast<std::int64_t>(index)));
    num_kept = NumKept(ranking, row.settings, scaled);
  }
  TokenScore best, best_token;
  for (const TokenScore& token : ranking.tokens.first(num_kept.value())) {
    const float score = kernels::cpu::GumbelScore(token.id, token.score, row.settings.temperature, DrawOf(row));
    if (!kernels::cpu::Precedes({score, token.id}, best)) continue;
    best = {score, token.id};
    best_token = token;
  }
  return best_token;
}

absl::Status Sampler::AddLogprobs(const Activations& logits, std::span<const SampledRow> rows) {
  num_preceding_.resize(rows.size());
  RETURN_IF_ERROR(exchange_->CountPreceding(logits, chosen_, num_preceding_));
  top_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].settings.num_logprobs) continue;
    const double log_sum_exp = exchange_->answer(i).log_sum_exp.Value();
    tokens_[i].logprob = static_cast<float>(chosen_[i].score - log_sum_exp);
    tokens_[i].rank = 1 + num_preceding_[i];
    tokens_[i].top = TopLogprobs(i, *rows[i].settings.num_logprobs, log_sum_exp);
  }
  return absl::OkStatus();
}

std::span<const TokenScore> Sampler::TopLogprobs(std::size_t index, std::size_t count, double log_sum_exp) {
  const std::span<const TokenScore> ranked = exchange_->Candidates(index).tokens;
  const std::size_t begin = top_.size();
  for (const TokenScore& token : ranked.first(std::min(count, ranked.size()))) {
    top_.push_back({static_cast<float>(token.score - log_sum_exp), token.id});
  }
  return std::span(top_).subspan(begin);
}

}  // namespace trireme::worker
