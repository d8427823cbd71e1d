// A status as the message that tells the server of it.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "trireme/worker/v1/control.pb.h"

namespace trireme::worker {

// Of no step; `status` is not OK.
inline v1::ConnectRequest FailureMessage(const absl::Status& status) {
  v1::ConnectRequest message;
  message.mutable_failure()->set_code(static_cast<int>(status.code()));
  message.mutable_failure()->set_message(std::string(status.message()));
  return message;
}

}  // namespace trireme::worker
