// A plan: which strategy each module gets. Data, in Transformers' key syntax.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "sharding/program/program.h"
#include "sharding/strategy/strategy.h"

namespace trireme::sharding {

// Pattern of module names → strategy name. The component `*` matches any number, and only a number:
// "model.layers.*.self_attn.q_proj". All else matches itself, so "model.layers.0.self_attn.q_proj" is a rule
// for one layer, and goes before the general one. Modules that no rule matches are replicated.
struct Plan {
  std::map<std::string, std::string> rules;
};

// `base` with the rules of `overrides` over it, key by key.
Plan MergePlans(Plan base, const Plan& overrides);

// The strategy of each module of one program. Immutable; may be used from any number of threads.
class ResolvedPlan {
 public:
  // InvalidArgument, all at once, one a line: a strategy that is not registered (with the list of names); a
  // rule that matches no module with parameters (with the nearest names).
  static absl::StatusOr<ResolvedPlan> Resolve(const Plan& plan, const Program& program,
                                              const StrategyRegistry& registry);

  // `replicate` where no rule matches. Null for what has no parameters, the empty name among them.
  const Strategy* ForModule(std::string_view module) const;

 private:
  std::map<std::string, std::shared_ptr<const Strategy>, std::less<>> by_module_;
};

}  // namespace trireme::sharding
