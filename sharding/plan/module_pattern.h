// Plan keys as patterns over dotted module names.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme::sharding {

// A plan's key. `*` matches a component that is only digits; anything else matches itself.
class ModulePattern {
 public:
  explicit ModulePattern(std::string_view pattern);

  bool Matches(std::string_view module) const;

  // Whether this one goes before `other` where both match: the one that spells out a number first.
  bool MoreSpecificThan(const ModulePattern& other) const;

 private:
  std::vector<std::string> components_;
};

// Replaces each path component that is only digits by `*`.
std::string GeneralizeModuleName(std::string_view module);

// The `count` of `candidates` that differ least from `name`, nearest first, for "did you mean".
std::vector<std::string> NearestNames(std::string_view name, std::vector<std::string> candidates, std::size_t count);

}  // namespace trireme::sharding
