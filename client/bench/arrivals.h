// When the requests of an open loop arrive: whatever the server does, as its users would.
#pragma once
#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "client/bench/random.h"

namespace trireme::client {

struct ArrivalOptions {
  double requests_per_second = std::numeric_limits<double>::infinity();  // above 0; infinity: all at once
  // Shape of the gamma distribution that the gaps have. 1: exponential gaps, so the arrivals are a Poisson process.
  // Less: bursts; more: ever more regular. The variance of a gap is its mean squared over this. Above 0.
  double burstiness = 1;
};

// Not thread-safe.
class Arrivals {
 public:
  Arrivals(const ArrivalOptions& options, std::uint64_t seed);

  // Of the next request, since the start of the run. Never before the former one.
  absl::Duration Next();

 private:
  const ArrivalOptions options_;
  Random random_;
  absl::Duration latest_;
};

}  // namespace trireme::client
