#include "worker/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

GumbelDraw DrawOf(const LogitRow& row) {
  return {.seed = row.settings->seed, .position = row.position(), .sample = row.settings->sample};
}

bool NeedsRanking(const SamplingSettings& settings) { return !settings.is_greedy() && !settings.keeps_all(); }

bool IsEdited(const LogitRow& row) {
  return row.is_sampled() && row.settings->edits_logits(row.history.num_generated());
}

absl::Status NoNumbers(const LogitRow& row) {
  return absl::InternalError(absl::StrCat("the logits of slot ", row.slot, " at position ", row.position(),
                                          " are not numbers: weights or activations have overflowed"));
}

absl::Status Overflow(const LogitRow& row, std::string_view cause) {
  return absl::InvalidArgumentError(absl::StrCat("the logits at position ", row.position(), " overflow by ",
                                                 std::string(cause), ", which must be less extreme"));
}

absl::Status NothingLeft(const LogitRow& row, std::int64_t vocabulary) {
  return absl::InvalidArgumentError(absl::StrCat("no token is left to choose at position ", row.position(),
                                                 ": bad_words and min_tokens forbid all ", vocabulary,
                                                 " of the vocabulary"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sampler>> Sampler::Create(const SamplerOptions& options, Ops& ops,
                                                         Communicator& communicator) {
  CHECK(options.max_candidates >= options.num_candidates &&
        options.max_candidates >= static_cast<std::int32_t>(kMaxLogprobs))
      << options.max_candidates;
  CHECK_LE(options.max_sampled, options.max_rows);
  ASSIGN_OR_RETURN(std::unique_ptr<LogitExchange> exchange,
                   LogitExchange::Create({.vocabulary = options.vocabulary,
                                          .local_vocabulary = options.local_vocabulary,
                                          .max_questions = options.max_rows + options.max_sampled,
                                          .max_candidates = options.max_candidates},
                                         ops, communicator));
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> edited,
                   ops.Allocate(options.max_sampled * options.local_vocabulary.size() * sizeof(float)));
  return absl::WrapUnique(new Sampler(options, ops, std::move(exchange), std::move(edited)));
}

Sampler::Sampler(const SamplerOptions& options, Ops& ops, std::unique_ptr<LogitExchange> exchange,
                 std::unique_ptr<DeviceMemory> edited)
    : options_(options),
      ops_(ops),
      exchange_(std::move(exchange)),
      edited_(std::move(edited)),
      editor_(options.local_vocabulary),
      typical_(options.vocabulary) {
  states_.reserve(options.max_rows);
  chosen_.reserve(options.max_rows);
  tokens_.reserve(options.max_rows);
  questions_.reserve(options.max_rows + options.max_sampled);
  told_.reserve(options.max_rows);
  rank_questions_.reserve(options.max_rows);
  num_preceding_.reserve(options.max_rows);
  top_.reserve(options.max_rows * kMaxLogprobs);
}

absl::StatusOr<std::span<const RowToken>> Sampler::Sample(const Activations& logits, std::span<const LogitRow> rows) {
  CHECK_EQ(logits.rows, static_cast<std::int64_t>(rows.size()));
  Prepare(logits, rows);
  RETURN_IF_ERROR(exchange_->Ask(questions_));
  tokens_.clear();
  chosen_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TokenScore token;
    absl::Status problem = ProblemOf(rows[i], states_[i]);
    if (problem.ok()) {
      ASSIGN_OR_RETURN(token, TokenOf(rows[i], states_[i]));
    }
    chosen_.push_back(token);
    tokens_.push_back({.status = std::move(problem), .id = token.id});
  }
  RETURN_IF_ERROR(AddLogprobs(rows));
  return tokens_;
}

void Sampler::Prepare(const Activations& logits, std::span<const LogitRow> rows) {
  states_.clear();
  questions_.clear();
  num_edited_ = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RowState state;
    state.logits = state.choice = logits.span().subspan(i * logits.width, logits.width);
    state.question = state.choice_question = questions_.size();
    const std::optional<std::uint32_t> num_logprobs = rows[i].num_logprobs();
    questions_.push_back({.logits = state.logits,
                          .wants_log_sum_exp = num_logprobs.has_value(),
                          .num_candidates = static_cast<std::int32_t>(num_logprobs.value_or(0)),
                          .token_id = rows[i].prompt_token});
    if (IsEdited(rows[i])) {
      state.choice = Edit(state.logits, rows[i]);
      state.choice_question = questions_.size();
      questions_.push_back({.logits = state.choice});
    }
    if (rows[i].is_sampled()) AddChoice(rows[i], questions_.back());
    states_.push_back(state);
  }
}

RowOfLogits Sampler::Edit(RowOfLogits logits, const LogitRow& row) {
  CHECK_LT(num_edited_, options_.max_sampled);
  float* data = reinterpret_cast<float*>(edited_->data()) + num_edited_++ * logits.size();
  ops_.EditLogits(static_cast<std::int32_t>(options_.local_vocabulary.begin), logits,
                  editor_.EditsFor(*row.settings, row.history), PenaltiesOf(*row.settings), {data, logits.size()});
  return {data, logits.size()};
}

void Sampler::AddChoice(const LogitRow& row, LogitQuestion& question) const {
  const SamplingSettings& settings = *row.settings;
  if (settings.is_greedy()) return;
  question.temperature = settings.temperature;
  if (settings.keeps_all()) {
    question.draw = DrawOf(row);
    return;
  }
  question.wants_scaled_log_sum_exp = settings.top_k == 0 && settings.top_p < 1;
  question.num_candidates = std::max(question.num_candidates, NumCandidates(settings));
}

std::int32_t Sampler::NumCandidates(const SamplingSettings& settings) const {
  constexpr std::uint32_t kRoomForTies = 8;  // behind the k-th
  const auto max_top_k = static_cast<std::uint32_t>(options_.max_candidates) - kRoomForTies;
  const std::uint32_t count = std::min(settings.top_k, max_top_k) + kRoomForTies;
  return std::max(static_cast<std::int32_t>(count), options_.num_candidates);
}

absl::Status Sampler::ProblemOf(const LogitRow& row, const RowState& state) const {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  const LogitAnswer& answer = exchange_->answer(state.question);
  if (!answer.are_numbers || answer.best_logit == kNothing) return NoNumbers(row);
  if (!row.is_sampled()) return absl::OkStatus();
  const LogitAnswer& choice = exchange_->answer(state.choice_question);
  if (!choice.are_numbers) return Overflow(row, "logit_bias and penalties");
  if (choice.best_logit == kNothing) return NothingLeft(row, options_.vocabulary);
  const bool is_in_range = row.settings->is_greedy() || std::isfinite(choice.best_logit / row.settings->temperature);
  return is_in_range ? absl::OkStatus() : Overflow(row, absl::StrCat("a temperature of ", row.settings->temperature));
}

absl::StatusOr<TokenScore> Sampler::TokenOf(const LogitRow& row, const RowState& state) {
  const LogitAnswer& answer = exchange_->answer(state.choice_question);
  if (!row.is_sampled()) return TokenScore{answer.token_logit, *row.prompt_token};
  if (NeedsRanking(*row.settings)) return DrawFromKept(row, state);
  return TokenScore{answer.best_logit, answer.best.id};
}

absl::StatusOr<TokenScore> Sampler::DrawFromKept(const LogitRow& row, const RowState& state) {
  const SamplingSettings& settings = *row.settings;
  const LogSumExp& scaled = exchange_->answer(state.choice_question).scaled_log_sum_exp;
  Ranking ranking = exchange_->Candidates(state.choice_question);
  std::optional<std::size_t> num_kept = NumKept(ranking, settings, scaled);
  if (!num_kept) {
    ASSIGN_OR_RETURN(ranking, exchange_->RankWholeRow(state.choice));
    num_kept = NumKept(ranking, settings, scaled);
  }
  TokenScore best, best_token;
  for (const TokenScore& token : typical_.Keep(ranking.tokens.first(num_kept.value()), settings)) {
    const float score = kernels::cpu::GumbelScore(token.id, token.score, settings.temperature, DrawOf(row));
    if (!kernels::cpu::Precedes({score, token.id}, best)) continue;
    best = {score, token.id};
    best_token = token;
  }
  return best_token;
}

absl::Status Sampler::AddLogprobs(std::span<const LogitRow> rows) {
  told_.clear();
  top_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<std::uint32_t> num_logprobs = rows[i].num_logprobs();
    if (!num_logprobs || !tokens_[i].status.ok()) continue;
    const std::size_t question = states_[i].question;
    const double log_sum_exp = exchange_->answer(question).log_sum_exp.Value();
    told_.push_back({.index = i, .logit = chosen_[i].score, .log_sum_exp = log_sum_exp});
    tokens_[i].top = TopLogprobs(question, *num_logprobs, log_sum_exp);
  }
  if (told_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(LookUpLogits());
  return AddRanks();
}

std::span<const TokenScore> Sampler::TopLogprobs(std::size_t question, std::size_t count, double log_sum_exp) {
  const std::span<const TokenScore> ranked = exchange_->Candidates(question).tokens;
  const std::size_t begin = top_.size();
  for (const TokenScore& token : ranked.first(std::min(count, ranked.size()))) {
    top_.push_back({static_cast<float>(token.score - log_sum_exp), token.id});
  }
  return std::span(top_).subspan(begin);
}

// A token that was chosen among edited logits: what is its logit by the model? Its rank alone knows.
absl::Status Sampler::LookUpLogits() {
  questions_.clear();
  for (const ToldRow& told : told_) {
    const RowState& state = states_[told.index];
    if (state.is_edited()) questions_.push_back({.logits = state.logits, .token_id = tokens_[told.index].id});
  }
  if (questions_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(exchange_->Ask(questions_));
  std::size_t question = 0;
  for (ToldRow& told : told_) {
    if (states_[told.index].is_edited()) told.logit = exchange_->answer(question++).token_logit;
  }
  return absl::OkStatus();
}

absl::Status Sampler::AddRanks() {
  rank_questions_.clear();
  for (const ToldRow& told : told_) {
    rank_questions_.push_back({states_[told.index].logits, {told.logit, tokens_[told.index].id}});
  }
  num_preceding_.resize(told_.size());
  RETURN_IF_ERROR(exchange_->CountPreceding(rank_questions_, num_preceding_));
  for (std::size_t i = 0; i < told_.size(); ++i) {
    RowToken& token = tokens_[told_[i].index];
    token.logprob = static_cast<float>(told_[i].logit - told_[i].log_sum_exp);
    token.rank = 1 + num_preceding_[i];
  }
  return absl::OkStatus();
}

}  // namespace trireme::worker
