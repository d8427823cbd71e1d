// Reads a config.json so that no key goes unnoticed: each is consumed, or named as harmless, or a problem.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace trireme::sharding {

// A key that is null counts as absent. Where a value is bad, a getter notes the problem and returns the
// default, so that all problems are found; Finish tells them. Not thread-safe.
class ConfigReader {
 public:
  // `object` must outlive this. `path` goes before keys in messages: "rope_parameters.".
  explicit ConfigReader(const nlohmann::json& object, std::string path = "");

  bool Has(std::string_view key) const;

  std::int64_t PositiveInt(const std::string& key, std::int64_t default_value, std::int64_t max);
  double PositiveNumber(const std::string& key, double default_value);
  bool Bool(const std::string& key, bool default_value);
  std::string String(const std::string& key, std::string default_value);
  // A nested object, consumed; null if absent. Read it with a ConfigReader of its own, and Absorb that.
  const nlohmann::json* Object(const std::string& key);

  // The key changes the computation in a way that is implemented for this value only (or absent, or null).
  void Only(const std::string& key, const nlohmann::json& value);
  // Keys that do not change what is computed.
  void Harmless(const std::vector<std::string>& keys);

  void AddProblem(std::string problem);
  // Takes over the problems of a nested object's reader, its unknown keys among them.
  void Absorb(const ConfigReader& nested);

  // InvalidArgument with all problems, one a line.
  absl::Status Finish() const;

 private:
  const nlohmann::json* Consume(const std::string& key);
  void AddWrongValue(const std::string& key, const nlohmann::json& got, std::string_view wanted);
  std::vector<std::string> Problems() const;

  const nlohmann::json& object_;
  std::string path_;
  std::set<std::string> known_;
  std::vector<std::string> problems_;
};

}  // namespace trireme::sharding
