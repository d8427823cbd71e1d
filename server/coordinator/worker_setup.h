// What a worker is started with, and what it is told once it has dialled in.
#pragma once
#include <cstdint>
#include <string>

#include "server/coordinator/worker_group.h"
#include "server/coordinator/worker_process.h"
#include "trireme/worker/v1/control.pb.h"

namespace trireme::server {

// The worker's environment variable for its token: not a flag, since every user of the host may read those.
inline constexpr char kSpawnTokenVariable[] = "TRIREME_SPAWN_TOKEN";

// Called in the process that will be the worker's parent. `communicator_fd` is the group's shared memory.
ProcessSpec WorkerSpec(const WorkerGroupOptions& options, const std::string& control_address,
                       const std::string& spawn_token, int communicator_fd);

// The group's options as rank `rank` needs them.
worker::v1::Configure ConfigureMessage(const WorkerGroupOptions& options, int rank, std::uint64_t generation);

}  // namespace trireme::server
