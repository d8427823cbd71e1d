#include "server/coordinator/first_cause.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace trireme::server {

void FirstCause::Add(Cause cause, absl::Time now) {
  CHECK(!cause.status.ok());
  decided_at_ = std::min(decided_at_, cause.kind == CauseKind::kRoot ? now : now + patience_);
  if (!strongest_ || cause.kind > strongest_->kind) strongest_ = std::move(cause);
}

std::optional<Cause> FirstCause::Get(absl::Time now) const {
  if (now < decided_at_) return std::nullopt;
  return strongest_;
}

}  // namespace trireme::server
