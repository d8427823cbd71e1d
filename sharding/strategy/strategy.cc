#include "sharding/strategy/strategy.h"

namespace trireme::sharding {

absl::Status Strategy::ValidateParameter(const ParameterRole&, int) const { return absl::OkStatus(); }
Placement Strategy::ShardParameter(const ParameterRole&) const { return Replicate{}; }
Placement Strategy::InputLayout() const { return Replicate{}; }
Placement Strategy::ComputedLayout() const { return Replicate{}; }
Placement Strategy::OutputLayout() const { return ComputedLayout(); }

}  // namespace trireme::sharding
