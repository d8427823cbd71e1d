// Chooses tokens while the vocabulary stays cut among the ranks (DESIGN, "Sampling").
//
// Ranks exchange what little each knows of its part (best score, sums, first candidates) and all derive the same token
// from it, so nothing is broadcast. A row's logits are gathered only where the candidates do not settle what top_k and
// top_p keep. A draw takes the greatest Gumbel score among the tokens that are kept; its random numbers depend on seed,
// position and token id alone, so neither batch nor number of ranks changes them.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/placement/interval.h"
#include "worker/batch.h"
#include "worker/communicator.h"
#include "worker/logit_exchange.h"
#include "worker/ops.h"

namespace trireme::worker {

struct SamplerOptions {
  std::int64_t vocabulary = 0;
  sharding::Interval local_vocabulary;  // as LogitExchangeOptions has it
  std::int64_t max_rows = 0;
  // Candidates that each rank offers where top_k or top_p is used; more if top_k asks for more, up to the
  // limit, beyond which rows are gathered.
  std::int32_t num_candidates = 64;
  std::int32_t max_candidates = 256;  // no less than kMaxLogprobs and num_candidates
};

struct SampledToken {
  std::int32_t id = 0;
  // The rest only if log-probabilities were asked for: of the model's own distribution, before temperature.
  float logprob = 0;
  std::int64_t rank = 0;                 // 1 is the likeliest; of equal ones the lower id comes first
  std::span<const TokenScore> top = {};  // likeliest first; scores are log-probabilities
};

// One thread at a time.
class Sampler {
 public:
  // A collective, as all others.
  static absl::StatusOr<std::unique_ptr<Sampler>> Create(const SamplerOptions& options, Ops& ops,
                                                         Communicator& communicator);

  // `logits` is [rows, ids held], `rows` has one for each and is equal on all ranks; so is the result, which
  // is valid until the next call. Internal, naming the slot, if a row's logits are not numbers.
  absl::StatusOr<std::span<const SampledToken>> Sample(const Activations& logits, std::span<const SampledRow> rows);

  absl::StatusOr<std::vector<float>> GatherLogits(const Activations& logits) { return exchange_->GatherLogits(logits); }

 private:
  Sampler(const SamplerOptions& options, std::unique_ptr<LogitExchange> exchange);

  LogitQuestion QuestionFor(const SampledRow& row) const;
  std::int32_t NumCandidates(const SamplingSettings& settings) const;
  // The token and its logit.
  absl::StatusOr<TokenScore> Choose(const Activations& logits, const SampledRow& row, std::size_t index);
  absl::StatusOr<TokenScore> DrawFromKept(const Activations& logits, const SampledRow& row, std::size_t index);
  absl::Status AddLogprobs(const Activations& logits, std::span<const SampledRow> rows);
  std::span<const TokenScore> TopLogprobs(std::size_t index, std::size_t count, double log_sum_exp);

  const SamplerOptions options_;
  const std::unique_ptr<LogitExchange> exchange_;

  // Of the current call, by row; reserved for max_rows.
  std::vector<LogitQuestion> questions_;
  std::vector<TokenScore> chosen_;  // with their logits; neutral where no log-probability is asked for
  std::vector<std::int64_t> num_preceding_;
  std::vector<TokenScore> top_;  // of all rows
  std::vector<SampledToken> tokens_;
};

}  // namespace trireme::worker
