// google.protobuf.Duration as absl's.
#pragma once
#include <google/protobuf/duration.pb.h>

#include "absl/time/time.h"

namespace trireme::worker {

inline absl::Duration DurationFrom(const google::protobuf::Duration& message) {
  return absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

}  // namespace trireme::worker
