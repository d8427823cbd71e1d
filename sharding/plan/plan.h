// A plan: which strategy each module gets. Data, in Transformers' key syntax.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "sharding/program/program.h"
#include "sharding/strategy/strategy.h"

namespace trireme::sharding {

// Module pattern → strategy name. A component that is only digits, and `*`, match any number:
// "model.layers.*.self_attn.q_proj". Modules that no rule matches are replicated.
struct Plan {
  std::map<std::string, std::string> rules;
};

// Replaces each path component that is only digits by `*`.
std::string GeneralizeModuleName(std::string_view module);

// The plan with each rule's strategy looked up.
//
// InvalidArgument, all at once: a strategy that is not registered (with the list of names); a rule that matches no
// module of the program (with the nearest names).
class ResolvedPlan {
 public:
  static absl::StatusOr<ResolvedPlan> Resolve(const Plan& plan, const Program& program,
                                              const StrategyRegistry& registry);

  // The strategy of a module; `replicate` where no rule matches. Null for the empty name.
  const Strategy* ForModule(std::string_view module) const;

 private:
  std::map<std::string, std::shared_ptr<const Strategy>> by_pattern_;
  std::shared_ptr<const Strategy> replicate_;
};

}  // namespace trireme::sharding
