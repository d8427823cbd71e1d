#include "tests/worker/loaded_ranks.h"

#include "base/status_macros.h"
#include "tests/support/rank_harness.h"

namespace trireme::worker {

absl::Status RunLoadedRanks(int world, const ExecutorOptions& options,
                            const std::function<absl::Status(LoadedRank&)>& body) {
  const SharedMemoryOptions shared_memory = {.chunk_bytes = 1 << 18, .timeout = absl::Seconds(60)};
  const auto results = test_support::RunRanks(
      world,
      [&](Communicator& communicator) -> absl::Status {
        LoadProgress progress;
        ASSIGN_OR_RETURN(const auto executor, Executor::Load(options, communicator, progress));
        ModelDriver driver(*executor, options);
        LoadedRank rank = {communicator, *executor, driver};
        return body(rank);
      },
      shared_memory);
  return test_support::FirstCause(results);
}

}  // namespace trireme::worker
