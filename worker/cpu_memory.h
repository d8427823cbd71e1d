// Memory of the host for a rank's own use.
#pragma once
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/thread_pool.h"
#include "worker/ops.h"

namespace trireme::worker {

// Zeros, on huge pages where there are any. Every page is touched by now, by the threads of `pool`: what a
// rank asks for at start it has, and does not find missing in the middle of a step. ResourceExhausted if the
// system refuses it.
absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateCpuMemory(std::size_t bytes, kernels::cpu::ThreadPool& pool);

}  // namespace trireme::worker
