#include "server/coordinator/restart_policy.h"

#include <algorithm>
#include <cmath>

namespace trireme::server {

std::optional<absl::Duration> RestartPolicy::OnLoss(std::uint64_t generation, absl::Time now) {
  while (!restarts_.empty() && now - restarts_.front().time >= limits_.window) restarts_.pop_front();
  const int num_restarts = static_cast<int>(restarts_.size());
  if (num_restarts >= limits_.max_restarts) return std::nullopt;
  restarts_.push_back({generation, now});
  return std::min(limits_.first_backoff * std::exp2(num_restarts), limits_.max_backoff);
}

void RestartPolicy::Excuse(std::span<const std::uint64_t> generations) {
  std::erase_if(restarts_, [generations](const Restart& restart) {
    return std::find(generations.begin(), generations.end(), restart.lost_generation) != generations.end();
  });
}

}  // namespace trireme::server
