// trireme-server as a process, with its workers, for tests of the whole.
#pragma once
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "tests/support/sanitizers.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::end_to_end {

// One at a time in a test. Threads: the test's only.
class ServerProcess {
 public:
  // Starts the built trireme-server on free loopback ports, with JSON logs, `--model model` and `arguments`.
  explicit ServerProcess(const std::string& model, std::vector<std::string> arguments = {});

  // Kills it if it still runs. No process of its may be left afterwards: a test failure names those that are.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Waits for the `count`th log line of this message. Nothing if the process or `patience` ends first.
  std::optional<nlohmann::json> WaitForLog(const std::string& message, int count = 1,
                                           absl::Duration patience = absl::Seconds(60) * test_support::kSlowdown);

  // Waits until the workers are loaded and Generate is served. False, with the log printed, if that does not happen.
  bool BecomesServing(int generation = 1);

  std::string target();  // of gRPC
  int metrics_port();
  v1::InferenceService::Stub& stub();
  v1::GetServerInfoResponse ServerInfo();
  v1::GetLoadsResponse Loads();

  void Signal(int number);

  // The exit status as waitpid tells it; nothing if it still runs after `patience`.
  std::optional<int> WaitForExit(absl::Duration patience = absl::Seconds(30));

  // All it has written to stderr.
  std::string log();

 private:
  void ReadLog(int descriptor);

  pid_t pid_ = -1;
  std::optional<int> exit_status_;
  Mutex mutex_;
  CondVar changed_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
  std::vector<nlohmann::json> events_ ABSL_GUARDED_BY(mutex_);
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;  // nobody can write to the log any more
  std::thread reader_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

// The demo model, or nothing (with the reason printed) where it was not fetched: $TRIREME_DEMO_MODEL, or below
// ~/.cache/trireme/models.
std::optional<std::string> DemoModel();

// `arguments`, and smaller steps in a build with sanitizers: the server's deadlines, of a step and of its warm-up while
// loading, know of no sanitizers, and a step of the demo model with 512 tokens would miss them.
std::vector<std::string> ForDemoModel(std::vector<std::string> arguments);

}  // namespace trireme::end_to_end
