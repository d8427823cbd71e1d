#include "worker/control/local_worker.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/logging_flags.h"
#include "base/status_macros.h"
#include "worker/control/parent_guard.h"

namespace trireme::worker {
namespace {

constexpr char kSpawnTokenVariable[] = "TRIREME_SPAWN_TOKEN";

absl::StatusOr<std::string> SpawnToken() {
  const char* token = std::getenv(kSpawnTokenVariable);
  if (token != nullptr && *token != '\0') return std::string(token);
  return absl::FailedPreconditionError("TRIREME_SPAWN_TOKEN is not set: workers are started by trireme-server");
}

absl::Status Run(const LocalWorkerOptions& options, const WorkerParts& parts, std::string build_id) {
  RETURN_IF_ERROR(DieWithParent(options.parent_pid));
  ASSIGN_OR_RETURN(std::string token, SpawnToken());
  return RunWorker(
      {.control_address = options.control_address, .spawn_token = std::move(token), .build_id = std::move(build_id)},
      parts);
}

}  // namespace

void AddFlags(FlagParser& flags, LocalWorkerOptions* options) {
  flags.AddRequired("control", "ADDR", "where the server waits for this worker: unix:PATH", &options->control_address);
  flags.AddRequired("parent-pid", "PID", "the server's process id", &options->parent_pid);
  flags.AddRequired("communicator-fd", "FD", "inherited descriptor of the group's shared memory",
                    &options->communicator_fd);
  AddLogFlags(flags, &options->log_format, &options->log_level);
}

int RunLocalWorker(const LocalWorkerOptions& options, const WorkerParts& parts, std::string build_id) {
  // Not its rank, which it learns when other threads log already. The server's lines name both.
  SetUpLogging(options.log_format, absl::StrCat("worker[", getpid(), "]"), options.log_level);
  const absl::Status status = Run(options, parts, std::move(build_id));
  if (status.ok()) return EXIT_SUCCESS;
  LogError("worker ends", {{"cause", status.ToString()}});
  return EXIT_FAILURE;
}

}  // namespace trireme::worker
