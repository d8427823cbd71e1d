// A model loaded on N ranks in one process, each driven by the same code.
#pragma once
#include <functional>

#include "absl/status/status.h"
#include "tests/worker/model_driver.h"
#include "worker/communicator.h"
#include "worker/executor.h"

namespace trireme::worker {

struct LoadedRank {
  Communicator& communicator;
  Executor& executor;
  ModelDriver& driver;

  bool is_first() const { return communicator.rank().index == 0; }
};

// Loads on each rank and calls `body` there. The first error of any rank.
absl::Status RunLoadedRanks(int world, const ExecutorOptions& options,
                            const std::function<absl::Status(LoadedRank&)>& body);

}  // namespace trireme::worker
