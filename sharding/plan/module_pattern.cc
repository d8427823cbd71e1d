#include "sharding/plan/module_pattern.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace trireme::sharding {
namespace {

std::vector<std::string> Components(std::string_view name) { return absl::StrSplit(std::string(name), '.'); }

bool IsNumber(std::string_view component) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !component.empty() && std::all_of(component.begin(), component.end(), is_digit);
}

// Levenshtein's distance.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string GeneralizeModuleName(std::string_view module) {
  std::vector<std::string> components = Components(module);
  for (std::string& component : components) {
    if (IsNumber(component)) component = "*";
  }
  return absl::StrJoin(components, ".");
}

ModulePattern::ModulePattern(std::string_view pattern) : components_(Components(pattern)) {}

bool ModulePattern::Matches(std::string_view module) const {
  const std::vector<std::string> names = Components(module);
  return std::equal(components_.begin(), components_.end(), names.begin(), names.end(),
                    [](const std::string& component, const std::string& name) {
                      return component == "*" ? IsNumber(name) : component == name;
                    });
}

bool ModulePattern::MoreSpecificThan(const ModulePattern& other) const {
  const auto is_literal = [](const std::string& component) { return component != "*"; };
  std::vector<bool> ours(components_.size());
  std::vector<bool> theirs(other.components_.size());
  std::transform(components_.begin(), components_.end(), ours.begin(), is_literal);
  std::transform(other.components_.begin(), other.components_.end(), theirs.begin(), is_literal);
  return ours > theirs;
}

std::vector<std::string> NearestNames(std::string_view name, std::vector<std::string> candidates, std::size_t count) {
  std::stable_sort(candidates.begin(), candidates.end(), [&](const std::string& a, const std::string& b) {
    return EditDistance(name, a) < EditDistance(name, b);
  });
  candidates.resize(std::min(candidates.size(), count));
  return candidates;
}

}  // namespace trireme::sharding
