#include "client/bench/gap_split.h"

#include <algorithm>
#include <cstddef>

namespace trireme::client {
namespace {

bool Overlap(const TimeWindow& a, const TimeWindow& b) { return a.begin < b.end && b.begin < a.end; }

void Append(const TimeWindow& gap, const std::vector<TimeWindow>& windows, SplitGaps& split) {
  const bool is_beside =
      std::any_of(windows.begin(), windows.end(), [&](const TimeWindow& window) { return Overlap(gap, window); });
  (is_beside ? split.beside : split.alone).push_back(absl::ToDoubleMilliseconds(gap.end - gap.begin));
}

}  // namespace

SplitGaps SplitInterTokenGaps(const std::vector<RequestRecord>& streams, const std::vector<TimeWindow>& windows,
                              const TimeWindow& measured) {
  SplitGaps split;
  for (const RequestRecord& stream : streams) {
    for (std::size_t i = 1; i < stream.arrivals.size(); ++i) {
      const TimeWindow gap{.begin = stream.arrivals[i - 1].at, .end = stream.arrivals[i].at};
      if (gap.begin >= measured.begin && gap.end <= measured.end) Append(gap, windows, split);
    }
  }
  return split;
}

}  // namespace trireme::client
