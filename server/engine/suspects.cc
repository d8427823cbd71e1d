#include "server/engine/suspects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace trireme::server {

std::optional<Suspects::Conviction> Suspects::OnLoss(std::span<const StepPart> in_flight, const Loss& loss) {
  std::map<std::uint64_t, std::uint32_t> num_computed;
  for (const StepPart& part : in_flight) {
    std::uint32_t& most = num_computed[part.key];
    most = std::max(most, part.num_computed);
  }
  const auto is_suspect = [this](const auto& of_key) { return Contains(of_key.first); };
  if (std::count_if(num_computed.begin(), num_computed.end(), is_suspect) == 1) {
    return Convict(std::find_if(num_computed.begin(), num_computed.end(), is_suspect)->first, loss);
  }
  for (const auto& [key, count] : num_computed) {
    Suspect& suspect = suspects_[key];
    suspect.num_computed = std::max(suspect.num_computed, count);
    suspect.losses.push_back(loss);
  }
  return std::nullopt;
}

Suspects::Conviction Suspects::Convict(std::uint64_t key, const Loss& last) {
  std::vector<Loss> losses = std::move(suspects_.at(key).losses);
  losses.push_back(last);
  Forget(key);
  std::vector<std::string> causes;
  Conviction conviction{.key = key, .reason = {}, .generations = {}};
  for (const Loss& loss : losses) {
    causes.push_back(loss.cause);
    conviction.generations.push_back(loss.generation);
  }
  conviction.reason = absl::StrCat(
      "the request kills its workers: they were lost ", losses.size(),
      " times while it was computed, at last with no other suspect. The causes: ", absl::StrJoin(causes, "; "));
  return conviction;
}

void Suspects::OnDone(const StepPart& part) {
  const auto found = suspects_.find(part.key);
  if (found != suspects_.end() && part.num_computed >= found->second.num_computed) suspects_.erase(found);
}

}  // namespace trireme::server
