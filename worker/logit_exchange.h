// What ranks must tell each other about logits whose vocabulary is cut among them. Where every rank holds
// everything, all of it is local and nobody waits.
//
// Every function but the accessors is a collective where the vocabulary is cut: all ranks call it with equal
// arguments but for the logits, and get equal answers, bit for bit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/placement/interval.h"
#include "worker/communicator.h"
#include "worker/logit_answers.h"
#include "worker/ops.h"
#include "worker/token_filter.h"

namespace trireme::worker {

struct LogitExchangeOptions {
  std::int64_t vocabulary = 0;
  sharding::Interval local_vocabulary;  // whose logits this rank holds: a part, in rank order, or everything
  std::int64_t max_questions = 0;       // of a call
  std::int32_t max_candidates = 0;      // of a question
};

// One thread at a time. Allocates nothing after Create, but GatherLogits' result.
class LogitExchange {
 public:
  static absl::StatusOr<std::unique_ptr<LogitExchange>> Create(const LogitExchangeOptions& options, Ops& ops,
                                                               Communicator& communicator);

  // Any rows, several questions about one if need be.
  absl::Status Ask(std::span<const LogitQuestion> questions);

  // Of the last Ask, by question: over the whole vocabulary.
  const LogitAnswer& answer(std::size_t question) const { return joined_[question]; }
  // Of the last Ask: the beginning of a row's ranking, as far as the candidates of all ranks reach; at least
  // as many as were asked for, or all. Valid until the next call of this.
  Ranking Candidates(std::size_t question);

  // The ranking of a whole row, whose logits are gathered for it: slow. Valid until the next call of this.
  absl::StatusOr<Ranking> RankWholeRow(RowOfLogits row);

  // counts[i] = how many ids precede the token of questions[i], over the whole vocabulary.
  absl::Status CountPreceding(std::span<const RankQuestion> questions, std::span<std::int64_t> counts);

  // [rows, vocabulary].
  absl::StatusOr<std::vector<float>> GatherLogits(const Activations& logits);

 private:
  LogitExchange(const LogitExchangeOptions& options, Ops& ops, Communicator& communicator);

  absl::Status FindParts();
  void Reserve();
  // all = every rank's `mine`, in rank order; only `mine` if the vocabulary is not cut.
  absl::Status Exchange(std::span<const std::byte> mine, std::span<std::byte> all);
  // Logits of rows [begin, begin + rows): a block [rows, ids] of each part, one after another, in `blocks`.
  absl::Status GatherBlocks(std::span<const float> mine, std::int64_t rows, std::vector<float>& blocks);

  std::span<const std::byte> MessageOf(std::size_t part) const;
  std::span<const LogitAnswer> AnswersOf(std::size_t part) const;
  std::span<const TokenScore> CandidatesOf(std::size_t part, std::size_t question) const;
  void JoinParts();
  bool is_cut() const { return parts_.size() > 1; }
  std::int32_t first_id() const { return static_cast<std::int32_t>(options_.local_vocabulary.begin); }

  const LogitExchangeOptions options_;
  Ops& ops_;
  Communicator& communicator_;
  std::vector<sharding::Interval> parts_;  // who holds which ids; one if every rank holds all

  std::size_t num_questions_ = 0;
  std::vector<std::size_t> candidate_offsets_;  // [questions + 1], into the candidates of a message
  std::vector<std::byte> mine_;                 // answers, then candidates
  std::vector<std::byte> all_;
  std::vector<LogitAnswer> joined_;   // [questions]
  std::vector<std::int64_t> counts_;  // [parts, questions], behind this rank's own

  std::vector<RankedPart> ranked_parts_;
  std::vector<TokenScore> merged_;
  std::vector<float> whole_row_;
  std::vector<TokenScore> whole_ranking_;
  std::vector<std::size_t> sizes_;  // of a collective's parts
};

}  // namespace trireme::worker
