// trireme-worker: one rank of a model. Started by trireme-server, one process per device.
#include <optional>

#include "base/flags.h"
#include "worker/control/cpu_parts.h"
#include "worker/control/local_worker.h"

int main(int argc, char** argv) {
  trireme::worker::LocalWorkerOptions options;
  trireme::FlagParser flags("trireme-worker", "One rank of a model. Started by trireme-server, not by hand.");
  trireme::worker::AddFlags(flags, &options);
  if (const std::optional<int> exit_status = trireme::ParseOrExit(flags, {argv + 1, argv + argc})) return *exit_status;
  return trireme::worker::RunLocalWorker(options, trireme::worker::CpuParts(options.communicator_fd));
}
