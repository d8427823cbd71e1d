#include "client/bench/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace trireme::client {

double Percentile(const std::vector<double>& sorted, double percent) {
  CHECK(!sorted.empty());
  CHECK(percent >= 0 && percent <= 100) << percent;
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const std::size_t below = std::min(static_cast<std::size_t>(place), sorted.size() - 1);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

Summary Summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {.count = values.size(),
          .mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          .p50 = Percentile(values, 50),
          .p90 = Percentile(values, 90),
          .p95 = Percentile(values, 95),
          .p99 = Percentile(values, 99),
          .max = values.back()};
}

}  // namespace trireme::client
