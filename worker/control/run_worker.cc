#include "worker/control/run_worker.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/duration_message.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "worker/control/control_connection.h"
#include "worker/control/failure_message.h"
#include "worker/control/periodic.h"
#include "worker/control/step_loop.h"

namespace trireme::worker {
namespace {

// How long a step may go on when the server is gone.
constexpr absl::Duration kStepGrace = absl::Milliseconds(500);
// How long the server may take to end the stream after this end has closed.
constexpr absl::Duration kGoodbye = absl::Seconds(5);

std::string HostName() {
  std::array<char, 256> name{};
  CHECK_EQ(gethostname(name.data(), name.size() - 1), 0);
  return name.data();
}

v1::ConnectRequest HelloMessage(const WorkerOptions& options) {
  v1::ConnectRequest message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_build_id(options.build_id);
  hello.set_spawn_token(options.spawn_token);
  hello.set_pid(getpid());
  hello.set_host(HostName());
  hello.set_device(options.device);
  return message;
}

absl::StatusOr<v1::ConnectResponse> AwaitFirstMessage(ControlConnection& connection, absl::Duration timeout) {
  const Periodic watchdog(timeout, [&connection] { connection.Cancel(); });
  v1::ConnectResponse message;
  if (!connection.Read(&message)) {
    const absl::Status status = connection.Finish();
    return absl::Status(status.ok() ? absl::StatusCode::kUnavailable : status.code(),
                        absl::StrCat("the server did not configure this worker: ", std::string(status.message())));
  }
  return message;
}

absl::Status CheckConfigure(const v1::ConnectResponse& first) {
  if (!first.has_configure()) return absl::InvalidArgumentError("the server's first message is not Configure");
  if (DurationFrom(first.configure().heartbeat_interval()) <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("Configure.heartbeat_interval must be > 0");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const v1::ConnectResponse& first,
                                                               const WorkerParts& parts) {
  RETURN_IF_ERROR(CheckConfigure(first));
  return parts.make_communicator(first.configure());
}

// Tells the server why this worker leaves, and waits until it has heard.
void LeaveWith(const absl::Status& failure, ControlConnection& connection) {
  connection.Send(FailureMessage(failure));
  connection.CloseWrites();
  const Periodic watchdog(kGoodbye, [&connection] { connection.Cancel(); });
  v1::ConnectResponse dropped;
  while (connection.Read(&dropped)) continue;
}

// A configured rank, until the stream ends.
class Session {
 public:
  Session(const v1::Configure& configure, const WorkerParts& parts, ControlConnection& connection,
          Communicator& communicator)
      : connection_(connection),
        communicator_(communicator),
        loop_({.sends_results = configure.rank() == 0,
               .load = [&](LoadProgress& progress) { return parts.load_executor(configure, communicator_, progress); },
               .collective_times = [this] { return communicator_.times(); },
               .on_end = [this](const absl::Status& status) { OnLoopEnd(status); }},
              &connection),
        heartbeats_(DurationFrom(configure.heartbeat_interval()), [this] { Beat(); }) {}

  // Reads until the stream ends, then returns how the loop did.
  absl::Status Run() {
    v1::ConnectResponse message;
    while (connection_.Read(&message)) Handle(message);
    const absl::Status stream_status = connection_.Finish();
    if (!is_closing()) {
      Stop(absl::CancelledError(absl::StrCat("the server ended the control stream: ", stream_status.ToString())));
    }
    std::optional<absl::Status> end = loop_.WaitForEnd(absl::Now() + kStepGrace);
    if (end) return *std::move(end);
    LogError("the server is gone; leaving in the middle of a step");
    _exit(1);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Handle(v1::ConnectResponse& message) {
    if (message.has_drain()) return loop_.Drain();
    const absl::Status status = message.has_step() ? loop_.Push(std::move(*message.mutable_step()))
                                                   : absl::InvalidArgumentError("a message that is no Step or Drain");
    if (status.ok()) return;
    connection_.Send(FailureMessage(status));
    Stop(status);
  }

  // Peers that wait for this rank are told after the server: the cause travels before its consequences.
  void Stop(const absl::Status& reason) {
    loop_.Stop(reason);
    communicator_.Abort(std::string(reason.message()));
  }

  void OnLoopEnd(const absl::Status& status) {
    if (!status.ok()) communicator_.Abort(std::string(status.message()));
    closing_since_ = Clock::now();
    connection_.CloseWrites();
  }

  void Beat() {
    if (!is_closing()) {
      v1::ConnectRequest message;
      *message.mutable_heartbeat() = loop_.heartbeat();
      connection_.Send(message);
    } else if (absl::FromChrono(Clock::now() - closing_since_.load()) > kGoodbye) {
      connection_.Cancel();
    }
  }

  bool is_closing() const { return closing_since_.load() != Clock::time_point(); }

  ControlConnection& connection_;
  Communicator& communicator_;
  std::atomic<Clock::time_point> closing_since_ = Clock::time_point();  // that is, never, while the loop runs
  StepLoop loop_;
  Periodic heartbeats_;  // last: uses all of the above
};

}  // namespace

absl::Status RunWorker(const WorkerOptions& options, const WorkerParts& parts) {
  ASSIGN_OR_RETURN(const auto connection, ControlConnection::Dial(options.control_address, options.dial_timeout));
  connection->Send(HelloMessage(options));
  ASSIGN_OR_RETURN(const v1::ConnectResponse first, AwaitFirstMessage(*connection, options.configure_timeout));
  const absl::StatusOr<std::unique_ptr<Communicator>> communicator = MakeCommunicator(first, parts);
  if (!communicator.ok()) {
    LeaveWith(communicator.status(), *connection);
    return communicator.status();
  }
  return Session(first.configure(), parts, *connection, **communicator).Run();
}

}  // namespace trireme::worker
