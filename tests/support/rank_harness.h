// N ranks as N threads of one process, over shared memory: what tests run tensor-parallel code on.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/communicator.h"
#include "worker/shared_memory_communicator.h"

namespace trireme::test_support {

// A chunk of 4 KiB, so that tests reach the code for several chunks; short timeouts are the test's to set.
worker::SharedMemoryOptions SmallChunks();

// Calls `body` with the communicator of each rank, each on a thread of its own; returns what they returned, by rank.
// Where a body fails, the others' collectives are aborted with its message, so that none waits for it.
std::vector<absl::Status> RunRanks(int world, const std::function<absl::Status(worker::Communicator&)>& body,
                                   const worker::SharedMemoryOptions& options = SmallChunks());

// As RunRanks, but a rank that fails or returns leaves the others waiting: for tests of deadlines.
std::vector<absl::Status> RunRanksAlone(int world, const std::function<absl::Status(worker::Communicator&)>& body,
                                        const worker::SharedMemoryOptions& options = SmallChunks());

// The first error that is not merely the echo of another rank's (Aborted), else the first; OK if all are.
absl::Status FirstCause(const std::vector<absl::Status>& results);

}  // namespace trireme::test_support
