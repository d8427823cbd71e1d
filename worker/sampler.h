// Chooses tokens while the vocabulary stays cut among the ranks (DESIGN, "Sampling"), and tells log-probabilities.
//
// Ranks exchange what little each knows of its part (best score, sums, first candidates) and all derive the same token
// from it, so nothing is broadcast. A row's logits are gathered only where the candidates do not settle which tokens
// are kept. A draw takes the greatest Gumbel score among these; its random numbers depend on seed, sample, position and
// token id alone, so neither batch nor number of ranks changes them.
//
// Where a sequence's settings change logits, the choice is made from a copy of the row. Log-probabilities are those of
// the model's own distribution: of the row as it is, before penalties, temperature and filters.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sharding/placement/interval.h"
#include "worker/batch.h"
#include "worker/communicator.h"
#include "worker/logit_editor.h"
#include "worker/logit_exchange.h"
#include "worker/ops.h"
#include "worker/token_filter.h"

namespace trireme::worker {

struct SamplerOptions {
  std::int64_t vocabulary = 0;
  sharding::Interval local_vocabulary;  // as LogitExchangeOptions has it
  std::int64_t max_rows = 0;            // of a call
  std::int64_t max_sampled = 0;         // of these, that are sampled: at most max_rows
  // Candidates that each rank offers where tokens are filtered; more if top_k asks for more, up to the
  // limit, beyond which rows are gathered.
  std::int32_t num_candidates = 64;
  std::int32_t max_candidates = 256;  // no less than kMaxLogprobs and num_candidates
};

// What a row gave.
struct RowToken {
  // INTERNAL if the row's logits are not numbers, INVALID_ARGUMENT if the settings leave no token to choose or make
  // logits overflow. Then there is nothing else. It concerns this row alone.
  absl::Status status = absl::OkStatus();
  std::int32_t id = 0;  // sampled, or the row's prompt token
  // The rest only if log-probabilities were asked for: of the model's own distribution.
  float logprob = 0;
  std::int64_t rank = 0;                 // 1 is the likeliest; of equal ones the lower id comes first
  std::span<const TokenScore> top = {};  // likeliest first; scores are log-probabilities
};

// One thread at a time. Allocates nothing after Create, but the text of errors.
class Sampler {
 public:
  // A collective, as all others. ResourceExhausted if there is no memory for the copies of rows.
  static absl::StatusOr<std::unique_ptr<Sampler>> Create(const SamplerOptions& options, Ops& ops,
                                                         Communicator& communicator);

  // `logits` is [rows, ids held], `rows` has one for each and is equal on all ranks; so is the result, which
  // is valid until the next call. Errors are those of the communicator.
  absl::StatusOr<std::span<const RowToken>> Sample(const Activations& logits, std::span<const LogitRow> rows);

  absl::StatusOr<std::vector<float>> GatherLogits(const Activations& logits) { return exchange_->GatherLogits(logits); }

 private:
  // Where a row's logits are and which questions ask about them; one, if its logits are not edited.
  struct RowState {
    RowOfLogits logits;  // the model's
    RowOfLogits choice;  // those that the choice is made from
    std::size_t question = 0;
    std::size_t choice_question = 0;

    bool is_edited() const { return choice_question != question; }
  };
  // A row that tells log-probabilities.
  struct ToldRow {
    std::size_t index = 0;  // of the row
    float logit = 0;        // of the row's token, by the model
    double log_sum_exp = 0;
  };

  Sampler(const SamplerOptions& options, Ops& ops, std::unique_ptr<LogitExchange> exchange,
          std::unique_ptr<DeviceMemory> edited);

  void Prepare(const Activations& logits, std::span<const LogitRow> rows);
  RowOfLogits Edit(RowOfLogits logits, const LogitRow& row);
  void AddChoice(const LogitRow& row, LogitQuestion& question) const;
  std::int32_t NumCandidates(const SamplingSettings& settings) const;

  // Why a row gives no token, judged by the answers; OK if it gives one.
  absl::Status ProblemOf(const LogitRow& row, const RowState& state) const;
  // The token that a row gives, and its logit among `state.choice`.
  absl::StatusOr<TokenScore> TokenOf(const LogitRow& row, const RowState& state);
  absl::StatusOr<TokenScore> DrawFromKept(const LogitRow& row, const RowState& state);

  // Log-probabilities. These are collectives; the last two are of told_.
  absl::Status AddLogprobs(std::span<const LogitRow> rows);
  std::span<const TokenScore> TopLogprobs(std::size_t question, std::size_t count, double log_sum_exp);
  absl::Status LookUpLogits();
  absl::Status AddRanks();

  const SamplerOptions options_;
  Ops& ops_;
  const std::unique_ptr<LogitExchange> exchange_;
  const std::unique_ptr<DeviceMemory> edited_;  // [max_sampled, ids held]
  LogitEditor editor_;
  TypicalFilter typical_;

  // Of the current call; reserved for the largest.
  std::vector<RowState> states_;  // by row, as the next two
  std::vector<TokenScore> chosen_;
  std::vector<RowToken> tokens_;
  std::vector<LogitQuestion> questions_;
  std::int64_t num_edited_ = 0;  // rows of edited_ in use
  std::vector<ToldRow> told_;
  std::vector<RankQuestion> rank_questions_;  // by told row, as the next
  std::vector<std::int64_t> num_preceding_;
  std::vector<TokenScore> top_;  // of all rows
};

}  // namespace trireme::worker
