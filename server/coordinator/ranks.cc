#include "server/coordinator/ranks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "server/coordinator/monotonic_clock.h"
#include "server/coordinator/worker_setup.h"

namespace trireme::server {

Ranks::Ranks(int num_ranks) : ranks_(static_cast<std::size_t>(num_ranks)) {
  for (int r = 0; r < num_ranks; ++r) ranks_[r].status.rank = r;
}

absl::Status Ranks::Start(const WorkerGroupOptions& options, const std::string& control_address,
                          std::uint64_t generation, Roster& roster) {
  // The ranks' shared memory: handed on as a descriptor, so that it has no name to leave behind. They size it.
  const int memory = memfd_create("trireme-communicator", MFD_CLOEXEC);
  if (memory < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  const auto close_memory = absl::MakeCleanup([memory] { close(memory); });
  std::vector<std::string> tokens(ranks_.size());
  std::generate(tokens.begin(), tokens.end(), MakeSpawnToken);
  roster.Expect(generation, tokens);
  for (Rank& rank : ranks_) {
    const ProcessSpec spec = WorkerSpec(options, control_address, tokens[rank.status.rank], memory);
    ASSIGN_OR_RETURN(WorkerProcess process, WorkerProcess::Spawn(spec));
    rank.process.emplace(std::move(process));
    rank.status.pid = rank.process->pid();
    LogInfo("worker started", {{"rank", rank.status.rank}, {"pid", rank.status.pid}, {"generation", generation}});
  }
  return absl::OkStatus();
}

void Ranks::OnHello(int rank, HelloEvent event) {
  ranks_[rank].stream = std::move(event.stream);
  ranks_[rank].status.host = event.hello.host();
  ranks_[rank].status.device = event.hello.device();
}

void Ranks::OnConfigured(int rank) { ranks_[rank].status.state = RankState::kLoading; }

void Ranks::OnHeartbeat(int rank, const RankProgress& progress, const RankTimes& times) {
  RankStatus& status = ranks_[rank].status;
  status.loaded_bytes = progress.loaded_bytes;
  status.total_bytes = progress.total_bytes;
  status.last_step_finished = progress.last_step_finished;
  status.times = times;
  status.last_heartbeat = MonotonicNow();
}

void Ranks::OnReady(int rank, const worker::v1::Ready& ready) {
  RankStatus& status = ranks_[rank].status;
  ranks_[rank].ready = ready;
  status.state = RankState::kReady;
  status.weight_bytes = ready.weight_bytes();
  status.bytes_read = ready.bytes_read();
  status.kv_cache_bytes = ready.kv_cache_bytes();
  LogInfo("worker ready", {{"rank", rank},
                           {"pid", status.pid},
                           {"weight_bytes", status.weight_bytes},
                           {"read_bytes", status.bytes_read},
                           {"kv_cache_bytes", status.kv_cache_bytes}});
}

absl::Status Ranks::Send(int rank, const grpc::ByteBuffer& message) {
  const absl::Status status = ranks_[rank].stream->Send(message);
  if (status.ok()) return status;
  return absl::UnavailableError(absl::StrCat(NameOf(rank), " ", std::string(status.message())));
}

std::vector<RankEnd> Ranks::TakeEnded(bool is_draining) {
  std::vector<RankEnd> ended;
  for (Rank& rank : ranks_) {
    RankState& state = rank.status.state;
    if (state == RankState::kLost || state == RankState::kStopped) continue;
    const std::optional<ProcessEnd> end = rank.process->TryReap();
    if (!end) continue;
    state = is_draining && end->is_success() ? RankState::kStopped : RankState::kLost;
    ended.push_back({.rank = rank.status.rank, .end = *end});
  }
  return ended;
}

void Ranks::End(absl::Duration grace) {
  for (const Rank& rank : ranks_) {
    if (rank.stream != nullptr) rank.stream->Close({grpc::StatusCode::UNAVAILABLE, "the worker group ends"});
  }
  const absl::Time grace_end = MonotonicNow() + grace;
  for (Rank& rank : ranks_) {
    if (rank.process) rank.process->ReapBy(grace_end);
  }
  for (Rank& rank : ranks_) {
    if (rank.process) rank.process->Kill();
  }
  for (Rank& rank : ranks_) {
    rank.process.reset();  // waits for its end
    rank.status.pid = 0;
    if (rank.status.state != RankState::kLost) rank.status.state = RankState::kStopped;
  }
}

std::string Ranks::NameOf(int rank) const {
  return absl::StrCat("rank ", rank, " (pid ", ranks_[rank].status.pid, ")");
}

std::vector<std::string> Ranks::Names() const {
  std::vector<std::string> names;
  for (const Rank& rank : ranks_) names.push_back(NameOf(rank.status.rank));
  return names;
}

std::vector<RankStatus> Ranks::Statuses() const {
  std::vector<RankStatus> statuses;
  for (const Rank& rank : ranks_) statuses.push_back(rank.status);
  return statuses;
}

std::vector<std::shared_ptr<ControlStream>> Ranks::Streams() const {
  std::vector<std::shared_ptr<ControlStream>> streams;
  for (const Rank& rank : ranks_) streams.push_back(rank.stream);
  return streams;
}

bool Ranks::AllHaveSaidHello() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.stream != nullptr; });
}

bool Ranks::AllAreReady() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ready.has_value(); });
}

std::vector<int> Ranks::Running() const {
  std::vector<int> running;
  for (const Rank& rank : ranks_) {
    if (rank.process && rank.process->is_running()) running.push_back(rank.status.rank);
  }
  return running;
}

std::vector<int> Ranks::PidfdsOfRunning() const {
  std::vector<int> pidfds;
  for (const int rank : Running()) pidfds.push_back(ranks_[rank].process->pidfd());
  return pidfds;
}

absl::StatusOr<std::vector<std::uint32_t>> Ranks::LeastKvBlocks() const {
  const auto& first = ranks_.front().ready->num_kv_blocks();
  std::vector<std::uint32_t> least(first.begin(), first.end());
  for (const Rank& rank : ranks_) {
    const auto& blocks = rank.ready->num_kv_blocks();
    if (blocks.size() != static_cast<int>(least.size())) {
      return absl::InternalError(
          absl::StrCat("ranks have ", least.size(), " and ", blocks.size(), " KV groups: their programs differ"));
    }
    for (std::size_t g = 0; g < least.size(); ++g) least[g] = std::min(least[g], blocks[static_cast<int>(g)]);
  }
  return least;
}

}  // namespace trireme::server
