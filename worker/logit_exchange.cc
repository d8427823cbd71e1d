#include "worker/logit_exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

using sharding::Interval;

template <typename T>
std::span<T> ViewAs(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
std::span<const T> ViewAs(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

bool AllHoldEverything(const std::vector<Interval>& parts, std::int64_t vocabulary) {
  return std::all_of(parts.begin(), parts.end(), [&](const Interval& p) { return p.size() == vocabulary; });
}

// Parts follow each other and cover the vocabulary; an empty one may say any place.
bool Tile(const std::vector<Interval>& parts, std::int64_t vocabulary) {
  std::int64_t end = 0;
  for (const Interval& part : parts) {
    if (part.empty()) continue;
    if (part.begin != end) return false;
    end = part.end;
  }
  return end == vocabulary;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogitExchange>> LogitExchange::Create(const LogitExchangeOptions& options, Ops& ops,
                                                                     Communicator& communicator) {
  auto exchange = absl::WrapUnique(new LogitExchange(options, ops, communicator));
  RETURN_IF_ERROR(exchange->FindParts());
  exchange->Reserve();
  return exchange;
}

LogitExchange::LogitExchange(const LogitExchangeOptions& options, Ops& ops, Communicator& communicator)
    : options_(options), ops_(ops), communicator_(communicator) {}

absl::Status LogitExchange::FindParts() {
  const int world = communicator_.rank().world;
  std::vector<Interval> parts(world);
  sizes_.assign(world, sizeof(Interval));
  RETURN_IF_ERROR(communicator_.AllGather(std::as_bytes(std::span(&options_.local_vocabulary, 1)), sizes_,
                                          std::as_writable_bytes(std::span(parts))));
  if (AllHoldEverything(parts, options_.vocabulary)) parts = {{0, options_.vocabulary}};
  CHECK(Tile(parts, options_.vocabulary))
      << "the parts of " << world << " ranks do not make up a vocabulary of " << options_.vocabulary;
  parts_ = std::move(parts);
  return absl::OkStatus();
}

void LogitExchange::Reserve() {
  const std::size_t max_candidates = options_.max_candidates;
  const std::size_t max_message = options_.max_questions * (sizeof(LogitAnswer) + max_candidates * sizeof(TokenScore));
  candidate_offsets_.reserve(options_.max_questions + 1);
  mine_.reserve(max_message);
  all_.reserve(max_message * parts_.size());
  joined_.reserve(options_.max_questions);
  counts_.reserve(options_.max_questions * (1 + parts_.size()));
  ranked_parts_.resize(parts_.size());
  merged_.reserve(max_candidates * parts_.size());
  whole_row_.reserve(options_.vocabulary);
  whole_ranking_.reserve(options_.vocabulary);
  sizes_.reserve(parts_.size());
}

absl::Status LogitExchange::Ask(std::span<const LogitQuestion> questions) {
  CHECK_LE(std::ssize(questions), options_.max_questions);
  num_questions_ = questions.size();
  candidate_offsets_.assign(1, 0);
  for (const LogitQuestion& question : questions) {
    CHECK_LE(question.num_candidates, options_.max_candidates);
    candidate_offsets_.push_back(candidate_offsets_.back() + question.num_candidates);
  }
  const std::size_t answers_bytes = num_questions_ * sizeof(LogitAnswer);
  mine_.resize(answers_bytes + candidate_offsets_.back() * sizeof(TokenScore));
  ops_.AnswerLogits(first_id(), questions, ViewAs<LogitAnswer>(std::span(mine_).first(answers_bytes)),
                    ViewAs<TokenScore>(std::span(mine_).subspan(answers_bytes)));
  all_.resize(mine_.size() * parts_.size());
  RETURN_IF_ERROR(Exchange(mine_, all_));
  JoinParts();
  return absl::OkStatus();
}

void LogitExchange::JoinParts() {
  joined_.assign(num_questions_, LogitAnswer{});
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    for (std::size_t i = 0; i < num_questions_; ++i) joined_[i] = JoinAnswers(joined_[i], AnswersOf(part)[i]);
  }
}

absl::Status LogitExchange::Exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (!is_cut()) {
    std::copy(mine.begin(), mine.end(), all.begin());
    return absl::OkStatus();
  }
  sizes_.assign(parts_.size(), mine.size());
  return communicator_.AllGather(mine, sizes_, all);
}

std::span<const std::byte> LogitExchange::MessageOf(std::size_t part) const {
  return std::span(all_).subspan(part * mine_.size(), mine_.size());
}

std::span<const LogitAnswer> LogitExchange::AnswersOf(std::size_t part) const {
  return ViewAs<LogitAnswer>(MessageOf(part).first(num_questions_ * sizeof(LogitAnswer)));
}

std::span<const TokenScore> LogitExchange::CandidatesOf(std::size_t part, std::size_t question) const {
  const auto all = ViewAs<TokenScore>(MessageOf(part).subspan(num_questions_ * sizeof(LogitAnswer)));
  const std::size_t offset = candidate_offsets_[question];
  return all.subspan(offset, candidate_offsets_[question + 1] - offset);
}

Ranking LogitExchange::Candidates(std::size_t question) {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::span<const TokenScore> listed = CandidatesOf(part, question);
    const auto held = static_cast<std::size_t>(parts_[part].size());
    ranked_parts_[part] = {listed.first(std::min(listed.size(), held)), listed.size() >= held};
  }
  return Merge(ranked_parts_, merged_);
}

absl::StatusOr<Ranking> LogitExchange::RankWholeRow(RowOfLogits row) {
  RETURN_IF_ERROR(GatherBlocks(row, 1, whole_row_));
  whole_ranking_.clear();
  for (std::int32_t id = 0; id < options_.vocabulary; ++id) {
    const float logit = whole_row_[id];
    whole_ranking_.push_back({std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit, id});
  }
  std::sort(whole_ranking_.begin(), whole_ranking_.end(), kernels::cpu::Precedes);
  return Ranking{whole_ranking_, true};
}

absl::Status LogitExchange::CountPreceding(std::span<const RankQuestion> questions, std::span<std::int64_t> counts) {
  const std::size_t size = questions.size();
  counts_.resize((1 + parts_.size()) * size);
  const std::span<std::int64_t> mine = std::span(counts_).first(size), all = std::span(counts_).subspan(size);
  ops_.CountPreceding(first_id(), questions, mine);
  RETURN_IF_ERROR(Exchange(std::as_bytes(mine), std::as_writable_bytes(all)));
  for (std::size_t i = 0; i < size; ++i) {
    counts[i] = 0;
    for (std::size_t part = 0; part < parts_.size(); ++part) counts[i] += all[part * size + i];
  }
  return absl::OkStatus();
}

absl::Status LogitExchange::GatherBlocks(std::span<const float> mine, std::int64_t rows, std::vector<float>& blocks) {
  blocks.resize(rows * options_.vocabulary);
  if (!is_cut()) {
    std::copy(mine.begin(), mine.end(), blocks.begin());
    return absl::OkStatus();
  }
  sizes_.clear();
  for (const Interval& part : parts_) sizes_.push_back(rows * part.size() * sizeof(float));
  return communicator_.AllGather(std::as_bytes(mine), sizes_, std::as_writable_bytes(std::span(blocks)));
}

absl::StatusOr<std::vector<float>> LogitExchange::GatherLogits(const Activations& logits) {
  std::vector<float> blocks, all(logits.rows * options_.vocabulary);
  RETURN_IF_ERROR(GatherBlocks(logits.span(), logits.rows, blocks));
  const float* from = blocks.data();
  for (const Interval& part : parts_) {
    for (std::int64_t row = 0; row < logits.rows; ++row, from += part.size()) {
      std::copy_n(from, part.size(), all.begin() + row * options_.vocabulary + part.begin);
    }
  }
  return all;
}

}  // namespace trireme::worker
