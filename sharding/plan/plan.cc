#include "sharding/plan/plan.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sharding/plan/module_pattern.h"

namespace trireme::sharding {
namespace {

struct Rule {
  std::string key;
  ModulePattern pattern;
  std::shared_ptr<const Strategy> strategy;
  bool matched = false;
};

std::set<std::string> ModulesWithParameters(const Program& program) {
  std::set<std::string> modules;
  for (const Op& op : program.ops) {
    if (HasParameters(op.kind)) modules.insert(op.module);
  }
  return modules;
}

std::string Quoted(const std::vector<std::string>& names) {
  return absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\"");
}

std::string NoSuchModule(const std::string& key, const std::set<std::string>& modules) {
  std::set<std::string> general;
  for (const std::string& module : modules) general.insert(GeneralizeModuleName(module));
  return absl::StrCat("plan rule \"", key, "\" matches no module that has parameters; the nearest are ",
                      Quoted(NearestNames(key, {general.begin(), general.end()}, 3)));
}

// The most specific rule that matches; marks all that match.
Rule* FindRule(std::string_view module, std::vector<Rule>& rules) {
  Rule* best = nullptr;
  for (Rule& rule : rules) {
    if (!rule.pattern.Matches(module)) continue;
    rule.matched = true;
    if (best == nullptr || rule.pattern.MoreSpecificThan(best->pattern)) best = &rule;
  }
  return best;
}

}  // namespace

Plan MergePlans(Plan base, const Plan& overrides) {
  for (const auto& [key, strategy] : overrides.rules) base.rules[key] = strategy;
  return base;
}

absl::StatusOr<ResolvedPlan> ResolvedPlan::Resolve(const Plan& plan, const Program& program,
                                                   const StrategyRegistry& registry) {
  std::vector<std::string> problems;
  std::vector<Rule> rules;
  for (const auto& [key, name] : plan.rules) {
    rules.push_back({.key = key, .pattern = ModulePattern(key), .strategy = registry.Find(name)});
    if (rules.back().strategy != nullptr) continue;
    problems.push_back(absl::StrCat("plan rule \"", key, "\": no strategy \"", name, "\" is registered; there are ",
                                    Quoted(registry.Names())));
  }
  const std::shared_ptr<const Strategy> replicate = registry.Find("replicate");
  const std::set<std::string> modules = ModulesWithParameters(program);
  ResolvedPlan resolved;
  for (const std::string& module : modules) {
    const Rule* rule = FindRule(module, rules);
    resolved.by_module_[module] = rule == nullptr ? replicate : rule->strategy;
  }
  for (const Rule& rule : rules) {
    if (!rule.matched) problems.push_back(NoSuchModule(rule.key, modules));
  }
  if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  return resolved;
}

const Strategy* ResolvedPlan::ForModule(std::string_view module) const {
  const auto found = by_module_.find(module);
  return found == by_module_.end() ? nullptr : found->second.get();
}

}  // namespace trireme::sharding
