// google.protobuf.Duration as absl's, and back. For those who link protobuf: base itself does not.
#pragma once
#include <google/protobuf/duration.pb.h>

#include <cstdint>

#include "absl/time/time.h"

namespace trireme {

inline absl::Duration DurationFrom(const google::protobuf::Duration& message) {
  return absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

// REQUIRES: finite.
inline google::protobuf::Duration ToMessage(absl::Duration duration) {
  google::protobuf::Duration message;
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  message.set_nanos(static_cast<std::int32_t>(absl::ToInt64Nanoseconds(duration)));
  return message;
}

}  // namespace trireme
