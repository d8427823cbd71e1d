#include "sharding/plan/plan_file.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/json_file.h"

namespace trireme::sharding {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxPlanBytes = std::int64_t{1} << 20;

absl::StatusOr<std::string> StrategyNameOf(const std::string& key, const json& rule) {
  if (rule.is_string()) return rule.get<std::string>();
  if (!rule.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan rule \"", key, "\": want a strategy's name, got ", rule.dump()));
  }
  for (const auto& [option, value] : rule.items()) {
    if (option == "style" && value.is_string()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("plan rule \"", key, "\": the option \"", option, "\": ", value.dump(), " is not supported"));
  }
  if (!rule.contains("style")) {
    return absl::InvalidArgumentError(absl::StrCat("plan rule \"", key, "\": an object needs a \"style\""));
  }
  return rule["style"].get<std::string>();
}

absl::StatusOr<Plan> PlanFrom(const json& rules) {
  Plan plan;
  for (const auto& [key, rule] : rules.items()) {
    ASSIGN_OR_RETURN(plan.rules[key], StrategyNameOf(key, rule));
  }
  return plan;
}

absl::Status Within(std::string_view what, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(std::string(what), ": ", std::string(status.message())));
}

}  // namespace

absl::StatusOr<Plan> ParsePlan(std::string_view json_text) {
  const absl::StatusOr<json> rules = ParseJsonObject(json_text);
  if (!rules.ok()) {
    return Within("a plan is a JSON object {\"module pattern\": \"strategy\", ...}", rules.status());
  }
  return PlanFrom(*rules);
}

absl::StatusOr<Plan> ReadPlanFile(const std::filesystem::path& path) {
  std::int64_t bytes_read = 0;
  ASSIGN_OR_RETURN(const json rules, ReadJsonObject(path, kMaxPlanBytes, bytes_read));
  absl::StatusOr<Plan> plan = PlanFrom(rules);
  if (!plan.ok()) return Within(path.string(), plan.status());
  return plan;
}

}  // namespace trireme::sharding
