#include "tests/support/rank_harness.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "base/check.h"

namespace trireme::test_support {
namespace {

using Body = std::function<absl::Status(worker::Communicator&)>;

// All ranks use one mapping (not one each of a memfd), so that ThreadSanitizer sees them touch the same addresses.
std::unique_ptr<std::byte, decltype(&std::free)> SharedMemory(std::size_t bytes) {
  void* memory = std::aligned_alloc(64, bytes);
  CHECK(memory != nullptr);
  std::memset(memory, 0, bytes);
  return {static_cast<std::byte*>(memory), &std::free};
}

}  // namespace

worker::SharedMemoryOptions SmallChunks() { return {.chunk_bytes = 4096, .timeout = absl::Seconds(60)}; }

std::vector<absl::Status> RunRanksAlone(int world, const Body& body, const worker::SharedMemoryOptions& options) {
  const auto memory = SharedMemory(worker::SharedMemoryCommunicator::BytesFor(world, options));
  std::vector<absl::Status> results(world);
  std::vector<std::thread> threads;
  for (int r = 0; r < world; ++r) {
    threads.emplace_back([&, r] {
      const auto communicator = worker::SharedMemoryCommunicator::OverMemory(memory.get(), {r, world}, options);
      results[r] = body(*communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<absl::Status> RunRanks(int world, const Body& body, const worker::SharedMemoryOptions& options) {
  return RunRanksAlone(
      world,
      [&](worker::Communicator& communicator) {
        absl::Status status = body(communicator);
        if (!status.ok()) communicator.Abort(std::string(status.message()));
        return status;
      },
      options);
}

absl::Status FirstCause(const std::vector<absl::Status>& results) {
  absl::Status first;
  for (const absl::Status& status : results) {
    if (first.ok() || (absl::IsAborted(first) && !status.ok())) first = status;
  }
  return first;
}

}  // namespace trireme::test_support
