// Sends a workload: in an open loop, by the clock, or in a closed one, each request when another has ended.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/bench/arrivals.h"
#include "client/bench/call_group.h"
#include "client/bench/request_record.h"
#include "client/bench/workload.h"

namespace trireme::client {

// The run sends until the first of its two ends, and then waits for what it has sent.
struct LoadOptions {
  std::optional<ArrivalOptions> arrivals = {};  // of an open loop; absent: closed
  std::uint32_t concurrency = 1;                // of a closed loop: requests at a time, at least 1
  std::optional<std::uint64_t> num_requests = {};
  absl::Duration duration = absl::InfiniteDuration();  // nothing is due later
  absl::Duration timeout = absl::Minutes(10);          // of each request
};

struct LoadResult {
  std::vector<RequestRecord> records;  // in the order in which the requests ended
  bool is_interrupted = false;         // by CallGroup::Interrupt
};

// Returns when all has ended. `calls` is new, as is the clock it was made with: it says when the run began.
LoadResult RunLoad(const Workload& workload, const LoadOptions& options, std::uint64_t arrival_seed,
                   const RunClock& clock, CallGroup& calls);

}  // namespace trireme::client
