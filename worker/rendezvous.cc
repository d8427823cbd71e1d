#include "worker/rendezvous.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/cpu.h"

namespace trireme::worker {
namespace {

constexpr std::size_t kReasonBytes = 512;
constexpr std::uint32_t kAbortedBit = 1;
constexpr std::uint32_t kOneMeeting = 2;  // the word counts meetings above the abort bit

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4,
              "a futex is a plain 32-bit word");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock in shared memory may be lost with its owner");

std::int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

// Not the PRIVATE futexes of std::atomic::wait: those never wake another process.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t deadline_ns) {
  const timespec deadline = {deadline_ns / 1'000'000'000, deadline_ns % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, &deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void FutexWakeAll(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Meetings in `word` minus meetings in `target`, on a circle: correct after 2³¹ meetings too.
bool IsComplete(std::uint32_t word, std::uint32_t target) {
  return static_cast<std::int32_t>((word & ~kAbortedBit) - target) >= 0;
}

std::string_view KindName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kAllToAll:
      return "all-to-all";
    case CollectiveKind::kBarrier:
      return "barrier";
  }
  return "unknown collective";
}

bool CountsFloats(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

}  // namespace

std::string ToString(const Collective& collective) {
  std::string name(KindName(collective.kind));
  if (collective.kind == CollectiveKind::kBarrier) return name;
  std::string text = absl::StrCat(name, " of ", collective.size, CountsFloats(collective.kind) ? " floats" : " bytes");
  if (collective.kind == CollectiveKind::kBroadcast) return absl::StrCat(text, " from rank ", collective.detail);
  return text;
}

absl::Duration SpinThatSuits(int world, int threads_per_rank) {
  const bool fits = world * threads_per_rank <= UsableCpus();
  return fits ? absl::Microseconds(200) : absl::ZeroDuration();
}

// The words that all ranks write. Zero is the state before the first meeting.
struct Rendezvous::Shared {
  // Meetings completed, times kOneMeeting, and the abort bit: one word, so that a sleeper misses neither.
  alignas(64) std::atomic<std::uint32_t> progress;
  std::atomic<std::uint32_t> sleepers;
  alignas(64) std::atomic<std::uint32_t> arrivals;      // of all ranks, since the beginning; wraps around
  alignas(64) std::atomic<std::uint32_t> reason_state;  // 0 none, 1 being written, 2 written
  char reason[kReasonBytes];
};

// What one rank says of itself. One writer.
struct alignas(64) Rendezvous::RankLine {
  std::atomic<std::uint32_t> meetings;     // that it has come to; wraps around
  std::atomic<std::uint64_t> collectives;  // that it has begun
  // By generation, as a rank may be one meeting ahead while others read.
  Collective collective[2];
  std::int64_t begun_ns[2];  // when it came to that collective
};

std::size_t Rendezvous::BytesFor(int world) {
  static_assert(sizeof(Shared) % 64 == 0 && sizeof(RankLine) % 64 == 0);
  return sizeof(Shared) + static_cast<std::size_t>(world) * sizeof(RankLine);
}

Rendezvous::Rendezvous(std::byte* memory, sharding::Rank rank, const RendezvousOptions& options)
    : shared_(reinterpret_cast<Shared*>(memory)),
      lines_(reinterpret_cast<RankLine*>(memory + sizeof(Shared))),
      rank_(rank),
      options_(options) {
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
}

void Rendezvous::Begin(const Collective& collective, std::optional<absl::Duration> timeout) {
  current_ = collective;
  timeout_ = timeout.value_or(options_.timeout);
  begun_ns_ = MonotonicNs();
  deadline_ns_ = begun_ns_ + absl::ToInt64Nanoseconds(timeout_);
  has_met_ = false;
  lines_[rank_.index].collectives.store(++collectives_, std::memory_order_relaxed);
}

void Rendezvous::End() {
  ++num_ended_;
  total_ns_ += MonotonicNs() - begun_ns_;
}

CollectiveTimes Rendezvous::times() const {
  return {.count = num_ended_,
          .total = absl::Nanoseconds(total_ns_),
          .wait = absl::Nanoseconds(wait_ns_),
          .lateness = absl::Nanoseconds(lateness_ns_)};
}

absl::Status Rendezvous::Meet() {
  if (!failure_.ok()) return failure_;
  RankLine& mine = lines_[rank_.index];
  mine.collective[generation()] = current_;
  mine.begun_ns[generation()] = begun_ns_;
  mine.meetings.store(meetings_ + 1, std::memory_order_relaxed);

  // The last to come completes the meeting. Every arrival is a read-modify-write of one word, so that the
  // last one has seen all that the others wrote before theirs, and passes it on by `progress`.
  const std::uint32_t everyone = (meetings_ + 1) * static_cast<std::uint32_t>(rank_.world);
  if (shared_->arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 == everyone) {
    shared_->progress.fetch_add(kOneMeeting, std::memory_order_seq_cst);
    if (shared_->sleepers.load(std::memory_order_seq_cst) > 0) FutexWakeAll(shared_->progress);
  }
  failure_ = WaitUntilComplete((meetings_ + 1) * kOneMeeting);
  if (failure_.ok()) failure_ = CheckSameCollective();
  if (failure_.ok()) NoteArrivals();
  ++meetings_;
  return failure_;
}

absl::Status Rendezvous::WaitUntilComplete(std::uint32_t target) {
  if (!SpinUntilComplete(target)) {
    // A sleeper says so before it looks at the word, and whoever changes the word looks for sleepers after:
    // one of the two sees the other. A sleeper that is killed only costs the others a needless wake.
    shared_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
      const std::uint32_t seen = shared_->progress.load(std::memory_order_seq_cst);
      if (IsComplete(seen, target) || (seen & kAbortedBit) || MonotonicNs() >= deadline_ns_) break;
      FutexWait(shared_->progress, seen, deadline_ns_);
    }
    shared_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
  const std::uint32_t seen = shared_->progress.load(std::memory_order_acquire);
  if (seen & kAbortedBit) return AbortReason();
  return IsComplete(seen, target) ? absl::OkStatus() : MissingRanks();
}

bool Rendezvous::SpinUntilComplete(std::uint32_t target) const {
  const std::int64_t spin_ns = absl::ToInt64Nanoseconds(options_.spin);
  const std::int64_t end_ns = spin_ns > 0 ? std::min(MonotonicNs() + spin_ns, deadline_ns_) : 0;
  for (;;) {
    const std::uint32_t seen = shared_->progress.load(std::memory_order_acquire);
    if (IsComplete(seen, target) || (seen & kAbortedBit)) return true;
    // Asked each time, as a yield on a busy CPU takes milliseconds.
    if (spin_ns == 0 || MonotonicNs() >= end_ns) return false;
    std::this_thread::yield();  // costs little on a free CPU, and hands on one that is not
  }
}

absl::Status Rendezvous::CheckSameCollective() const {
  for (int r = 0; r < rank_.world; ++r) {
    const Collective& other = lines_[r].collective[generation()];
    if (other == current_) continue;
    std::string theirs = ToString(other), ours = ToString(current_);
    if (theirs == ours) theirs += " in other parts";
    return absl::InternalError(absl::StrCat("rank ", r, " has diverged: at collective ", collectives_, " it is at ",
                                            theirs, ", rank ", rank_.index, " at ", ours));
  }
  return absl::OkStatus();
}

// Who came when to a collective is told at each of its meetings, and counts once.
void Rendezvous::NoteArrivals() {
  if (std::exchange(has_met_, true)) return;
  std::int64_t first_ns = begun_ns_, last_ns = begun_ns_;
  for (int r = 0; r < rank_.world; ++r) {
    first_ns = std::min(first_ns, lines_[r].begun_ns[generation()]);
    last_ns = std::max(last_ns, lines_[r].begun_ns[generation()]);
  }
  wait_ns_ += last_ns - begun_ns_;
  lateness_ns_ += begun_ns_ - first_ns;
}

absl::Status Rendezvous::MissingRanks() const {
  std::vector<std::string> missing;
  for (int r = 0; r < rank_.world; ++r) {
    if (lines_[r].meetings.load(std::memory_order_relaxed) == meetings_ + 1) continue;
    missing.push_back(
        absl::StrCat("rank ", r, " (last at ", lines_[r].collectives.load(std::memory_order_relaxed), ")"));
  }
  // All have come, but nobody says so: whoever came last was killed between two stores.
  if (missing.empty()) missing.push_back("the rank that came last, and ended as it came,");
  return absl::DeadlineExceededError(absl::StrCat(absl::StrJoin(missing, ", "), " did not arrive within ",
                                                  absl::FormatDuration(timeout_), " at collective ", collectives_, ", ",
                                                  ToString(current_), ", where rank ", rank_.index, " waits"));
}

absl::Status Rendezvous::AbortReason() const {
  const bool written = shared_->reason_state.load(std::memory_order_acquire) == 2;
  return absl::AbortedError(absl::StrCat("collective ", collectives_, " of rank ", rank_.index,
                                         " was aborted: ", written ? shared_->reason : "(the reason was not written)"));
}

void Rendezvous::Abort(std::string_view reason) {
  std::uint32_t none = 0;
  if (shared_->reason_state.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) {
    shared_->reason[reason.copy(shared_->reason, kReasonBytes - 1)] = '\0';
    shared_->reason_state.store(2, std::memory_order_release);
  }
  shared_->progress.fetch_or(kAbortedBit, std::memory_order_seq_cst);
  FutexWakeAll(shared_->progress);
}

}  // namespace trireme::worker
