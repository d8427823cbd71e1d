#include "server/coordinator/restart_policy.h"

#include <algorithm>
#include <cmath>

namespace trireme::server {

std::optional<absl::Duration> RestartPolicy::OnLoss(absl::Time now) {
  while (!restarts_.empty() && now - restarts_.front() >= limits_.window) restarts_.pop_front();
  const int num_restarts = static_cast<int>(restarts_.size());
  if (num_restarts >= limits_.max_restarts) return std::nullopt;
  restarts_.push_back(now);
  return std::min(limits_.first_backoff * std::exp2(num_restarts), limits_.max_backoff);
}

}  // namespace trireme::server
