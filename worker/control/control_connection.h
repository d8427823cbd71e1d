// The worker's end of the control stream.
#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "trireme/worker/v1/control.grpc.pb.h"
#include "worker/control/periodic.h"
#include "worker/control/step_loop.h"

namespace trireme::worker {

// How long a message may wait for a server that does not read. A server that is well reads at once: it puts what comes
// into a mailbox.
inline constexpr absl::Duration kWriteTimeout = absl::Seconds(10);

// One thread reads; any may send. gRPC's synchronous interface: a call to Send waits until the message is on its way,
// which takes microseconds unless the server does not read. After `write_timeout` the stream is broken, as by Cancel:
// else the step's thread, and behind it heartbeats and the goodbye, would wait for ever.
class ControlConnection : public MessageSink {
 public:
  // `address`: "unix:/path". DEADLINE_EXCEEDED where nobody answers in time.
  static absl::StatusOr<std::unique_ptr<ControlConnection>> Dial(const std::string& address, absl::Duration timeout,
                                                                 absl::Duration write_timeout = kWriteTimeout);

  // Ends the stream if it has not ended.
  ~ControlConnection() override;

  void Send(const v1::ConnectRequest& message) override;
  // Nothing is sent from now on; the server hears of it. Safe to call twice.
  void CloseWrites();

  // Waits for the next message. False at the stream's end: then Finish says why.
  bool Read(v1::ConnectResponse* message) { return stream_->Read(message); }
  // After Read returned false. OK if the server ended the stream as agreed.
  absl::Status Finish();

  // Breaks the stream, so that Read returns. Thread-safe.
  void Cancel() { context_.TryCancel(); }

 private:
  using Clock = std::chrono::steady_clock;

  ControlConnection(const std::shared_ptr<grpc::Channel>& channel, absl::Duration write_timeout);
  void CancelLongWrite();

  grpc::ClientContext context_;
  const std::unique_ptr<v1::WorkerControlService::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>> stream_;
  bool is_finished_ = false;  // used by the reading thread
  Mutex write_mutex_;
  bool is_closed_ ABSL_GUARDED_BY(write_mutex_) = false;
  const absl::Duration write_timeout_;
  std::atomic<Clock::time_point> write_begun_ = Clock::time_point();  // that is, never, while no message is written
  Periodic watchdog_;                                                 // last: uses all of the above
};

}  // namespace trireme::worker
