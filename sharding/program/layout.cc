#include "sharding/program/layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "sharding/plan/module_pattern.h"

namespace trireme::sharding {

std::int64_t Layout::Width(std::int64_t full_width, int rank) const {
  return is_cut() ? TotalSize((*parts)[rank]) : full_width;
}

bool operator==(const Layout& a, const Layout& b) {
  if (a.placement != b.placement) return false;
  return a.parts == b.parts || (a.is_cut() && b.is_cut() && *a.parts == *b.parts);
}

absl::StatusOr<Parts> AxisCutter::Cut(const Axis& axis, bool strided) {
  for (const Known& known : known_) {
    if (known.strided == strided && known.axis == axis) return known.parts;
  }
  known_.push_back({.axis = axis, .strided = strided, .parts = CutAnew(axis, strided)});
  return known_.back().parts;
}

absl::StatusOr<Parts> AxisCutter::CutAnew(const Axis& axis, bool strided) const {
  ASSIGN_OR_RETURN(const Axis as_cut, strided ? AxisForStridedShard(axis) : AxisForShard(axis));
  ASSIGN_OR_RETURN(std::vector<Intervals> parts, CutAxisForAll(as_cut, world_));
  return std::make_shared<const std::vector<Intervals>>(std::move(parts));
}

void ProblemList::Add(std::string_view module, std::string problem) {
  const std::string general = GeneralizeModuleName(module);
  auto known = std::find_if(problems_.begin(), problems_.end(), [&](const Problem& p) { return p.text == problem; });
  if (known == problems_.end()) known = problems_.insert(known, {.text = std::move(problem), .modules = {}});
  std::vector<std::string>& modules = known->modules;
  if (std::find(modules.begin(), modules.end(), general) == modules.end()) modules.push_back(general);
}

absl::Status ProblemList::ToStatus() const {
  CHECK(!empty());
  std::vector<std::string> lines;
  for (const Problem& problem : problems_) {
    lines.push_back(absl::StrCat(problem.text, " (", absl::StrJoin(problem.modules, ", "), ")"));
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

}  // namespace trireme::sharding
