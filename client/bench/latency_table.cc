#include "client/bench/latency_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace trireme::client {
namespace {

constexpr char kNameColumn[] = "%-24s";

std::string ShowNumber(double value, const Summary& summary) {
  return summary.count == 0 ? absl::StrFormat("%10s", "-") : absl::StrFormat("%10.2f", value);
}

}  // namespace

std::string ShowLatencies(const std::vector<std::pair<std::string, Summary>>& rows) {
  std::string text = absl::StrFormat(kNameColumn, "Milliseconds");
  for (const char* column : {"count", "mean", "p50", "p90", "p95", "p99", "max"}) {
    absl::StrAppendFormat(&text, "%10s", column);
  }
  for (const auto& [name, summary] : rows) {
    absl::StrAppend(&text, "\n", absl::StrFormat(kNameColumn, name), absl::StrFormat("%10d", summary.count));
    for (const double value : {summary.mean, summary.p50, summary.p90, summary.p95, summary.p99, summary.max}) {
      absl::StrAppend(&text, ShowNumber(value, summary));
    }
  }
  return text + "\n";
}

nlohmann::ordered_json SummaryJson(const Summary& summary) {
  if (summary.count == 0) return nullptr;
  return {{"count", summary.count}, {"mean", summary.mean}, {"p50", summary.p50}, {"p90", summary.p90},
          {"p95", summary.p95},     {"p99", summary.p99},   {"max", summary.max}};
}

}  // namespace trireme::client
