// A worker that a server on the same host has started: its flags, and its ties to that server.
#pragma once
#include <cstdint>
#include <string>

#include "base/flags.h"
#include "base/logging.h"
#include "worker/control/run_worker.h"

namespace trireme::worker {

// The program's flags.
struct LocalWorkerOptions {
  std::string control_address;  // "unix:/path"
  std::int32_t parent_pid = 0;
  std::int32_t communicator_fd = -1;
  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
};

// Declares them on `flags`. `options` outlives the parser.
void AddFlags(FlagParser& flags, LocalWorkerOptions* options);

// Ties this process to its parent and runs it with `parts`; the token is in TRIREME_SPAWN_TOKEN (not in a flag, which
// every user of the host may read). Returns the exit status: 0 when drained. `build_id` is for tests.
int RunLocalWorker(const LocalWorkerOptions& options, const WorkerParts& parts,
                   std::string build_id = std::string(BuildId()));

}  // namespace trireme::worker
