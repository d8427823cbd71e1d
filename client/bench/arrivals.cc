#include "client/bench/arrivals.h"

#include "base/check.h"

namespace trireme::client {
namespace {

constexpr std::uint64_t kStream = 0;  // of the seed; requests have those from 1 on, see workload.cc

}  // namespace

Arrivals::Arrivals(const ArrivalOptions& options, std::uint64_t seed) : options_(options), random_(seed, kStream) {
  CHECK_GT(options.requests_per_second, 0.0);
  CHECK_GT(options.burstiness, 0.0);
}

absl::Duration Arrivals::Next() {
  // Of mean 1. A gamma of shape 1 is the exponential, and drawn as such.
  const double gap =
      options_.burstiness == 1 ? random_.Exponential() : random_.Gamma(options_.burstiness) / options_.burstiness;
  latest_ += absl::Seconds(gap / options_.requests_per_second);
  return latest_;
}

}  // namespace trireme::client
