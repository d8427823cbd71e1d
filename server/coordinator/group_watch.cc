#include "server/coordinator/group_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace trireme::server {
namespace {

std::string Steps(const RankProgress& progress) {
  return absl::StrCat("last step begun ", progress.last_step_begun, ", finished ", progress.last_step_finished);
}

std::uint64_t BytesLeft(const RankProgress& progress) {
  return progress.total_bytes - std::min(progress.loaded_bytes, progress.total_bytes);
}

}  // namespace

GroupWatch::GroupWatch(const WorkerTimeouts& timeouts, std::vector<std::string> names, absl::Time started)
    : timeouts_(timeouts), ranks_(names.size()), started_(started) {
  for (std::size_t r = 0; r < names.size(); ++r) ranks_[r].name = std::move(names[r]);
}

void GroupWatch::OnHello(int rank) { ranks_[rank].has_said_hello = true; }

void GroupWatch::OnConfigured(absl::Time now) {
  is_configured_ = true;
  last_load_progress_ = now;
  for (RankState& rank : ranks_) rank.last_heartbeat = now;
}

void GroupWatch::OnHeartbeat(int rank, const RankProgress& progress, absl::Time now) {
  RankState& state = ranks_[rank];
  const std::uint64_t finished_before = FinishedByAll();
  if (progress.loaded_bytes != state.progress.loaded_bytes) last_load_progress_ = now;
  state.progress = progress;
  state.last_heartbeat = now;
  if (FinishedByAll() != finished_before) last_step_progress_ = now;
}

void GroupWatch::OnReady(int rank, absl::Time now) {
  ranks_[rank].is_ready = true;
  last_load_progress_ = now;
}

void GroupWatch::OnStepSent(std::uint64_t number, absl::Time now) {
  if (number == last_step_sent_) return;
  if (last_step_sent_ == FinishedByAll()) last_step_progress_ = now;  // it need not wait for another
  last_step_sent_ = number;
}

void GroupWatch::Forgive(absl::Duration held_up) {
  started_ += held_up;
  last_load_progress_ += held_up;
  last_step_progress_ += held_up;
  for (RankState& rank : ranks_) rank.last_heartbeat += held_up;
}

std::optional<LateRank> GroupWatch::Check(absl::Time now) const {
  if (!is_configured_) return CheckHello(now);
  if (std::optional<LateRank> late = CheckHeartbeats(now)) return late;
  if (std::optional<LateRank> late = CheckLoading(now)) return late;
  return CheckSteps(now);
}

std::optional<LateRank> GroupWatch::CheckHello(absl::Time now) const {
  if (now - started_ <= timeouts_.hello) return std::nullopt;
  for (const RankState& rank : ranks_) {
    if (rank.has_said_hello) continue;
    return LateRank{IndexOf(rank),
                    absl::StrCat(rank.name, " did not dial in within ", absl::FormatDuration(timeouts_.hello))};
  }
  return std::nullopt;
}

std::optional<LateRank> GroupWatch::CheckHeartbeats(absl::Time now) const {
  const auto quietest = std::min_element(ranks_.begin(), ranks_.end(), [](const RankState& a, const RankState& b) {
    return a.last_heartbeat < b.last_heartbeat;
  });
  if (now - quietest->last_heartbeat <= timeouts_.frozen_after) return std::nullopt;
  return LateRank{IndexOf(*quietest),
                  absl::StrCat(quietest->name, " sent no heartbeat for ", absl::FormatDuration(timeouts_.frozen_after),
                               "; ", Steps(quietest->progress))};
}

std::optional<LateRank> GroupWatch::CheckLoading(absl::Time now) const {
  const RankState* behind = nullptr;
  for (const RankState& rank : ranks_) {
    if (rank.is_ready) continue;
    if (behind == nullptr || BytesLeft(rank.progress) > BytesLeft(behind->progress)) behind = &rank;
  }
  if (behind == nullptr || now - last_load_progress_ <= timeouts_.load_stall) return std::nullopt;
  return LateRank{
      IndexOf(*behind),
      absl::StrCat(behind->name, " made no progress for ", absl::FormatDuration(timeouts_.load_stall),
                   " while loading: ", behind->progress.loaded_bytes, " of ", behind->progress.total_bytes, " bytes")};
}

std::optional<LateRank> GroupWatch::CheckSteps(absl::Time now) const {
  if (last_step_sent_ <= FinishedByAll() || now - last_step_progress_ <= timeouts_.step_deadline) {
    return std::nullopt;
  }
  const auto late = std::min_element(ranks_.begin(), ranks_.end(), [](const RankState& a, const RankState& b) {
    return std::pair(a.progress.last_step_finished, a.progress.last_step_begun) <
           std::pair(b.progress.last_step_finished, b.progress.last_step_begun);
  });
  return LateRank{IndexOf(*late),
                  absl::StrCat(late->name, " did not finish step ", late->progress.last_step_finished + 1, " within ",
                               absl::FormatDuration(timeouts_.step_deadline), "; ", Steps(late->progress))};
}

std::uint64_t GroupWatch::FinishedByAll() const {
  std::uint64_t least = ranks_.front().progress.last_step_finished;
  for (const RankState& rank : ranks_) least = std::min(least, rank.progress.last_step_finished);
  return least;
}

}  // namespace trireme::server
