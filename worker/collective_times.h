// What collectives cost a rank.
#pragma once
#include <cstdint>

#include "absl/time/time.h"

namespace trireme::worker {

// Sums over collectives. For each of them wait + lateness is the same on all ranks: the time between the first rank's
// coming and the last one's.
struct CollectiveTimes {
  std::uint64_t count = 0;  // that have ended
  absl::Duration total;     // in them, waiting included
  absl::Duration wait;      // of that, until the last rank had come
  absl::Duration lateness;  // by which this rank came later than the first

  friend CollectiveTimes operator-(const CollectiveTimes& a, const CollectiveTimes& b) {
    return {a.count - b.count, a.total - b.total, a.wait - b.wait, a.lateness - b.lateness};
  }
};

}  // namespace trireme::worker
