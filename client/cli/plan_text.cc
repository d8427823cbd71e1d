#include "client/cli/plan_text.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "sharding/plan/module_pattern.h"

namespace trireme::client {
namespace {

using sharding::CollectiveDescription;
using sharding::Interval;
using sharding::Intervals;
using sharding::ModuleDescription;
using sharding::ParameterDescription;
using sharding::ProgramDescription;

using Row = std::vector<std::string>;

// Rows with their columns under each other; the last column is not padded.
std::string Table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    absl::StrAppend(&text, "  ");
    for (std::size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&text, row[i], i + 1 == row.size() ? "\n" : std::string(widths[i] - row[i].size() + 2, ' '));
    }
  }
  return text;
}

// Rows that are alike, and how many of them there are.
class RowCounter {
 public:
  void Add(const Row& row) {
    const auto found = std::find_if(counted_.begin(), counted_.end(), [&](const auto& c) { return c.first == row; });
    if (found == counted_.end()) {
      counted_.emplace_back(row, 1);
    } else {
      ++found->second;
    }
  }

  // In order of their first appearance, with "xN" after the first column where N is more than one.
  std::vector<Row> Rows() const {
    std::vector<Row> rows;
    for (const auto& [row, count] : counted_) {
      rows.push_back(row);
      rows.back().insert(rows.back().begin() + 1, count == 1 ? "" : absl::StrCat("x", count));
    }
    return rows;
  }

 private:
  std::vector<std::pair<Row, int>> counted_;
};

std::string ShowIntervals(const Intervals& intervals, std::int64_t extent) {
  if (intervals.size() == 1 && intervals[0] == Interval{0, extent}) return ":";
  if (sharding::TotalSize(intervals) == 0) return "none";
  return absl::StrJoin(intervals, "+", [](std::string* out, const Interval& interval) {
    absl::StrAppend(out, interval.begin, ":", interval.end);
  });
}

std::string ShowParameter(const ParameterDescription& parameter, const std::string& module) {
  const bool is_own = parameter.name.starts_with(module + ".");
  return absl::StrCat(is_own ? parameter.name.substr(module.size() + 1) : parameter.name, " [",
                      absl::StrJoin(parameter.full_shape, ", "), "] ", parameter.placement, " -> ",
                      ShowSlices(parameter), parameter.shared ? " (shared)" : "");
}

std::string ShowModules(const ProgramDescription& program) {
  RowCounter counter;
  for (const ModuleDescription& module : program.modules) {
    std::vector<std::string> parameters;
    for (const ParameterDescription& p : module.parameters) parameters.push_back(ShowParameter(p, module.module));
    counter.Add({sharding::GeneralizeModuleName(module.module), module.strategy, ShowBytes(module.local_bytes),
                 absl::StrJoin(parameters, "; ")});
  }
  std::vector<Row> rows = counter.Rows();
  rows.insert(rows.begin(), {"module", "", "strategy", "bytes", "what the rank holds"});
  return Table(rows);
}

std::string ShowCollectives(const ProgramDescription& program) {
  if (program.collectives.empty()) return "  none\n";
  RowCounter counter;
  for (const CollectiveDescription& collective : program.collectives) {
    const bool every_token = collective.rows == sharding::Rows::kTokens;
    counter.Add({collective.module.empty() ? "(residual)" : sharding::GeneralizeModuleName(collective.module),
                 collective.kind,
                 absl::StrCat(collective.features, " features, ",
                              ShowBytes(collective.features * static_cast<std::int64_t>(sizeof(float))),
                              every_token ? " a token" : " a sampled token")});
  }
  return Table(counter.Rows());
}

}  // namespace

std::string ShowBytes(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return absl::StrFormat("%.1f %s", size, std::string(kUnits[unit]));
}

std::string ShowSlices(const ParameterDescription& parameter) {
  std::vector<std::string> dimensions;
  for (std::size_t i = 0; i < parameter.slices.size(); ++i) {
    dimensions.push_back(ShowIntervals(parameter.slices[i], parameter.full_shape[i]));
  }
  return absl::StrCat("[", absl::StrJoin(dimensions, ", "), "]");
}

std::string ShowProgram(const ProgramDescription& program) {
  return absl::StrCat(
      "Rank ", program.rank.index, " of ", program.rank.world, "\n", ShowModules(program), "\nCollectives\n",
      ShowCollectives(program), "\nTotals\n",
      Table({{"weights", ShowBytes(program.weight_bytes)},
             {"of these on every rank", ShowBytes(program.replicated_weight_bytes)},
             {"KV cache", absl::StrCat(ShowBytes(program.kv_cache_bytes_per_token), " a token")},
             {"activations", absl::StrCat(ShowBytes(program.activation_bytes_per_token), " a token of a step")},
             {"logits", absl::StrCat("of ids ", program.logits_vocabulary.begin, ":", program.logits_vocabulary.end,
                                     " of ", program.vocabulary)}}));
}

std::string ShowRanks(const std::vector<ProgramDescription>& ranks) {
  std::vector<Row> rows = {{"rank", "weights", "KV cache a token", "logits of ids"}};
  for (const ProgramDescription& rank : ranks) {
    rows.push_back({absl::StrCat(rank.rank.index), ShowBytes(rank.weight_bytes),
                    ShowBytes(rank.kv_cache_bytes_per_token),
                    absl::StrCat(rank.logits_vocabulary.begin, ":", rank.logits_vocabulary.end)});
  }
  return Table(rows);
}

}  // namespace trireme::client
