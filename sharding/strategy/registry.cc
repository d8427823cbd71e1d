#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "sharding/strategy/built_in.h"
#include "sharding/strategy/strategy.h"

namespace trireme::sharding {

StrategyRegistry StrategyRegistry::BuiltIn() {
  StrategyRegistry registry;
  registry.strategies_ = {
      std::make_shared<ReplicateStrategy>(),           std::make_shared<ColwiseStrategy>(),
      std::make_shared<ColwiseGatherOutputStrategy>(), std::make_shared<RowwiseStrategy>(),
      std::make_shared<EmbeddingRowwiseStrategy>(),    std::make_shared<PackedColwiseStrategy>(),
  };
  return registry;
}

absl::Status StrategyRegistry::Register(std::shared_ptr<const Strategy> strategy) {
  CHECK(strategy != nullptr);
  if (Find(strategy->name()) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("a strategy \"", std::string(strategy->name()), "\" is registered already"));
  }
  strategies_.push_back(std::move(strategy));
  return absl::OkStatus();
}

std::shared_ptr<const Strategy> StrategyRegistry::Find(std::string_view name) const {
  for (const std::shared_ptr<const Strategy>& strategy : strategies_) {
    if (strategy->name() == name) return strategy;
  }
  return nullptr;
}

std::vector<std::string> StrategyRegistry::Names() const {
  std::vector<std::string> names;
  for (const std::shared_ptr<const Strategy>& strategy : strategies_) names.emplace_back(strategy->name());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace trireme::sharding
