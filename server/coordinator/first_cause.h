// When a rank is lost, several things are heard of it, in any order and from several threads: its stream ends, its
// process dies, its own words of what went wrong arrive, and the other ranks complain that it is gone. This finds the
// one that began it.
#pragma once
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace trireme::server {

// Weakest first: each of the first three may be a consequence of one further down. Nothing lies behind the others, the
// roots.
enum class CauseKind {
  kStreamEnded,  // the control stream ended and nobody said why
  kPeerAborted,  // a rank whose collective was ended by another rank
  kExited,       // a process left with a status and without a word
  kKilled,       // a process ended by a signal
  kFailed,       // a rank's own word of an error
  kTimedOut,     // a missed deadline
  kProtocol,     // another build, a message out of turn, a rank that takes no messages
  kNotStarted,   // the processes cannot be started
};

// For machines: "stream_ended", "peer_aborted", "exited", "killed", "failed", "timed_out", "protocol", "not_started".
std::string_view NameOf(CauseKind kind);

struct Cause {
  CauseKind kind = CauseKind::kKilled;
  std::optional<int> rank;  // that it began with; nothing if it was none
  absl::Status status;      // names the rank; not OK
  bool is_final = false;    // no restart can heal it
};

// Not thread-safe.
class FirstCause {
 public:
  // `patience`: how long a weaker cause waits for a stronger one.
  explicit FirstCause(absl::Duration patience) : patience_(patience) {}

  // Of equal strength, as all roots are, the first is kept.
  void Add(Cause cause, absl::Time now);

  // The cause, once it is certain: a root at once, others when patience ends.
  std::optional<Cause> Get(absl::Time now) const;

  // When Get is to be asked again; InfiniteFuture if nothing is known.
  absl::Time decided_at() const { return decided_at_; }

 private:
  absl::Duration patience_;
  std::optional<Cause> strongest_;
  absl::Time decided_at_ = absl::InfiniteFuture();
};

}  // namespace trireme::server
