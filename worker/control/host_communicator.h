// The communicator of ranks that share a host.
#pragma once
#include <memory>

#include "absl/status/statusor.h"
#include "trireme/worker/v1/control.pb.h"
#include "worker/communicator.h"

namespace trireme::worker {

// Over the memory behind `fd`, the memfd that all ranks of the group have inherited; over nothing for a group of one.
absl::StatusOr<std::unique_ptr<Communicator>> MakeHostCommunicator(const v1::Configure& configure, int fd);

}  // namespace trireme::worker
