#include "server/coordinator/first_cause.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace trireme::server {
namespace {

bool IsRoot(CauseKind kind) { return kind >= CauseKind::kKilled; }

bool IsStronger(CauseKind a, CauseKind b) { return a > b && !IsRoot(b); }

}  // namespace

std::string_view NameOf(CauseKind kind) {
  switch (kind) {
    case CauseKind::kStreamEnded:
      return "stream_ended";
    case CauseKind::kPeerAborted:
      return "peer_aborted";
    case CauseKind::kExited:
      return "exited";
    case CauseKind::kKilled:
      return "killed";
    case CauseKind::kFailed:
      return "failed";
    case CauseKind::kTimedOut:
      return "timed_out";
    case CauseKind::kProtocol:
      return "protocol";
    case CauseKind::kNotStarted:
      return "not_started";
  }
  CHECK(false) << "unknown CauseKind " << static_cast<int>(kind);
  return "";
}

void FirstCause::Add(Cause cause, absl::Time now) {
  CHECK(!cause.status.ok());
  decided_at_ = std::min(decided_at_, IsRoot(cause.kind) ? now : now + patience_);
  if (!strongest_ || IsStronger(cause.kind, strongest_->kind)) strongest_ = std::move(cause);
}

std::optional<Cause> FirstCause::Get(absl::Time now) const {
  if (now < decided_at_) return std::nullopt;
  return strongest_;
}

}  // namespace trireme::server
