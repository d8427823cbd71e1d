// One worker's life: dial, hello, configure, load, serve steps, leave.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/version.h"
#include "trireme/worker/v1/control.pb.h"
#include "worker/communicator.h"
#include "worker/executor.h"

namespace trireme::worker {

struct WorkerOptions {
  std::string control_address = {};  // "unix:/path"
  std::string spawn_token = {};      // what the server gave this process
  std::string build_id = std::string(BuildId());
  std::string device = "cpu";
  absl::Duration dial_timeout = absl::Seconds(10);
  absl::Duration configure_timeout = absl::Seconds(60);  // the server waits for all ranks first
};

// What a rank works with, made once the server has said which rank it is. Tests have fakes.
struct WorkerParts {
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const v1::Configure&)> make_communicator;
  // Called on the thread that will run the steps.
  std::function<absl::StatusOr<std::unique_ptr<Executor>>(const v1::Configure&, Communicator&, LoadProgress&)>
      load_executor;
};

// Returns OK when the server has drained this rank; else why it ended, which the server was told, too, if it could be.
// The server's end of the stream is this worker's end: collectives are aborted, and if the step's thread has not
// stopped within half a second the process exits here and now with status 1.
absl::Status RunWorker(const WorkerOptions& options, const WorkerParts& parts);

}  // namespace trireme::worker
