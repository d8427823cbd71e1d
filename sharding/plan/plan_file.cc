#include "sharding/plan/plan_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::sharding {
namespace {

using nlohmann::json;

// nlohmann keeps the last of two equal keys; which of two rules is meant is not ours to guess.
struct ParsedJson {
  json value;
  std::optional<std::string> repeated_key;
};

ParsedJson ParseNotingRepeatedKeys(std::string_view text) {
  ParsedJson parsed;
  std::vector<std::set<std::string>> open_objects;
  const auto note = [&](int, json::parse_event_t event, json& element) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key && !open_objects.back().insert(element.get<std::string>()).second) {
      parsed.repeated_key = element.get<std::string>();
    }
    return true;
  };
  parsed.value = json::parse(text.begin(), text.end(), note, /*allow_exceptions=*/false);
  return parsed;
}

absl::StatusOr<std::string> StrategyNameOf(const std::string& key, const json& rule) {
  if (rule.is_string()) return rule.get<std::string>();
  if (!rule.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan rule \"", key, "\": want a strategy's name, got ", rule.dump()));
  }
  for (const auto& [option, value] : rule.items()) {
    if (option == "style" && value.is_string()) continue;
    return absl::InvalidArgumentError(absl::StrCat("plan rule \"", key, "\": the option \"", option,
                                                   "\": ", value.dump(), " is not supported"));
  }
  if (!rule.contains("style")) {
    return absl::InvalidArgumentError(absl::StrCat("plan rule \"", key, "\": an object needs a \"style\""));
  }
  return rule["style"].get<std::string>();
}

}  // namespace

absl::StatusOr<Plan> ParsePlan(std::string_view json_text) {
  const ParsedJson parsed = ParseNotingRepeatedKeys(json_text);
  if (!parsed.value.is_object()) {
    return absl::InvalidArgumentError("a plan is a JSON object {\"module pattern\": \"strategy\", ...}");
  }
  if (parsed.repeated_key.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan rule \"", *parsed.repeated_key, "\" is given twice"));
  }
  Plan plan;
  for (const auto& [key, rule] : parsed.value.items()) {
    ASSIGN_OR_RETURN(plan.rules[key], StrategyNameOf(key, rule));
  }
  return plan;
}

absl::StatusOr<Plan> ReadPlanFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return absl::NotFoundError(absl::StrCat(path.string(), ": no such plan file, or it cannot be read"));
  std::ostringstream text;
  text << file.rdbuf();
  absl::StatusOr<Plan> plan = ParsePlan(text.str());
  if (!plan.ok()) {
    return absl::Status(plan.status().code(),
                        absl::StrCat(path.string(), ": ", std::string(plan.status().message())));
  }
  return plan;
}

}  // namespace trireme::sharding
