#include "server/engine/suspects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace trireme::server {

std::optional<Suspects::Conviction> Suspects::OnLoss(std::span<const StepPart> in_flight, std::string_view cause) {
  std::map<std::uint64_t, std::uint32_t> num_computed;
  for (const StepPart& part : in_flight) {
    std::uint32_t& most = num_computed[part.key];
    most = std::max(most, part.num_computed);
  }
  const auto is_suspect = [this](const auto& of_key) { return Contains(of_key.first); };
  if (std::count_if(num_computed.begin(), num_computed.end(), is_suspect) == 1) {
    return Convict(std::find_if(num_computed.begin(), num_computed.end(), is_suspect)->first, cause);
  }
  for (const auto& [key, count] : num_computed) {
    Suspect& suspect = suspects_[key];
    suspect.num_computed = std::max(suspect.num_computed, count);
    suspect.causes.emplace_back(cause);
  }
  return std::nullopt;
}

Suspects::Conviction Suspects::Convict(std::uint64_t key, std::string_view cause) {
  const std::vector<std::string> former = std::move(suspects_.at(key).causes);
  Forget(key);
  return {.key = key,
          .reason = absl::StrCat("the request kills its workers: they were lost ", former.size() + 1,
                                 " times while it was computed, at last with no other suspect. The causes: ",
                                 absl::StrJoin(former, "; "), "; ", std::string(cause))};
}

void Suspects::OnDone(const StepPart& part) {
  const auto found = suspects_.find(part.key);
  if (found != suspects_.end() && part.num_computed >= found->second.num_computed) suspects_.erase(found);
}

}  // namespace trireme::server
