// What a CPU rank is made of: this host's shared memory and the executor over the CPU's kernels.
#pragma once
#include "absl/status/statusor.h"
#include "trireme/worker/v1/control.pb.h"
#include "worker/control/run_worker.h"
#include "worker/executor.h"

namespace trireme::worker {

// `communicator_fd`: the memfd that all ranks of the group have inherited.
WorkerParts CpuParts(int communicator_fd);

// InvalidArgument for a dtype that is neither float32 nor bfloat16.
absl::StatusOr<ExecutorOptions> ExecutorOptionsFrom(const v1::Configure& configure);

}  // namespace trireme::worker
