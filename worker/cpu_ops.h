// Ops on a CPU.
#pragma once
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "sharding/program/program.h"
#include "worker/ops.h"

namespace trireme::worker {

struct CpuOpsOptions {
  int num_threads = 1;  // the calling one included
  absl::Duration spin = absl::ZeroDuration();
  std::vector<sharding::RopeTable> rope_tables = {};
  std::int64_t max_positions = 0;  // tokens of a sequence
  std::int64_t max_rows = 0;       // of a step
  std::int64_t max_in_width = 0;   // of a weight [out, in]
};

std::unique_ptr<Ops> MakeCpuOps(const CpuOpsOptions& options);

}  // namespace trireme::worker
