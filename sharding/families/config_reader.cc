#include "sharding/families/config_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace trireme::sharding {

using nlohmann::json;

ConfigReader::ConfigReader(const json& object, std::string path) : object_(object), path_(std::move(path)) {
  CHECK(object.is_object()) << path_;
}

bool ConfigReader::Has(std::string_view key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

std::int64_t ConfigReader::PositiveInt(const std::string& key, std::int64_t default_value, std::int64_t max) {
  const json* value = Consume(key);
  if (value == nullptr) return default_value;
  const bool fits = value->is_number_integer() && *value > 0 && *value <= max;
  if (fits) return value->get<std::int64_t>();
  AddWrongValue(key, *value, absl::StrCat("an integer from 1 to ", max));
  return default_value;
}

double ConfigReader::PositiveNumber(const std::string& key, double default_value) {
  const json* value = Consume(key);
  if (value == nullptr) return default_value;
  if (value->is_number() && value->get<double>() > 0 && std::isfinite(value->get<double>())) {
    return value->get<double>();
  }
  AddWrongValue(key, *value, "a number above 0");
  return default_value;
}

bool ConfigReader::Bool(const std::string& key, bool default_value) {
  const json* value = Consume(key);
  if (value == nullptr) return default_value;
  if (value->is_boolean()) return value->get<bool>();
  AddWrongValue(key, *value, "true or false");
  return default_value;
}

std::string ConfigReader::String(const std::string& key, std::string default_value) {
  const json* value = Consume(key);
  if (value == nullptr) return default_value;
  if (value->is_string()) return value->get<std::string>();
  AddWrongValue(key, *value, "a string");
  return default_value;
}

const json* ConfigReader::Object(const std::string& key) {
  const json* value = Consume(key);
  if (value == nullptr || value->is_object()) return value;
  AddWrongValue(key, *value, "an object");
  return nullptr;
}

void ConfigReader::Only(const std::string& key, const json& value) {
  const json* given = Consume(key);
  if (given != nullptr && *given != value) AddWrongValue(key, *given, absl::StrCat("no value but ", value.dump()));
}

void ConfigReader::Harmless(const std::vector<std::string>& keys) { known_.insert(keys.begin(), keys.end()); }

void ConfigReader::AddProblem(std::string problem) { problems_.push_back(std::move(problem)); }

void ConfigReader::Absorb(const ConfigReader& nested) {
  for (std::string& problem : nested.Problems()) AddProblem(std::move(problem));
}

absl::Status ConfigReader::Finish() const {
  const std::vector<std::string> problems = Problems();
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("config.json: ", absl::StrJoin(problems, "\nconfig.json: ")));
}

const json* ConfigReader::Consume(const std::string& key) {
  known_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigReader::AddWrongValue(const std::string& key, const json& got, std::string_view wanted) {
  AddProblem(absl::StrCat(path_, key, " is ", got.dump(-1, ' ', true, json::error_handler_t::replace),
                          "; supported is ", std::string(wanted)));
}

std::vector<std::string> ConfigReader::Problems() const {
  std::vector<std::string> problems = problems_;
  for (const auto& [key, value] : object_.items()) {
    if (known_.count(key) > 0 || value.is_null()) continue;
    problems.push_back(absl::StrCat("unknown key ", path_, key));
  }
  return problems;
}

}  // namespace trireme::sharding
