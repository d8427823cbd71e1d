// Which gaps between tokens fall into given times. Pure.
#pragma once
#include <vector>

#include "absl/time/time.h"
#include "client/bench/request_record.h"

namespace trireme::client {

struct TimeWindow {
  absl::Duration begin;
  absl::Duration end;
};

// In milliseconds.
struct SplitGaps {
  std::vector<double> beside;  // that overlap one of the windows
  std::vector<double> alone;   // the others
};

// Of all streams' gaps, those that lie within `measured` as a whole. A gap that only touches a window is alone.
SplitGaps SplitInterTokenGaps(const std::vector<RequestRecord>& streams, const std::vector<TimeWindow>& windows,
                              const TimeWindow& measured);

}  // namespace trireme::client
