#include "worker/control/control_connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/logging.h"

namespace trireme::worker {
namespace {

constexpr int kUnlimited = -1;  // the server is ours: a long prompt's Step may be as long as it is

// A long prompt's Step fits in it. Fixed, since gRPC's search for a good one costs: a step of 30,000 tokens takes 1.4
// ms to three ranks with it and 3.3 ms without; and where client and server share a process (tests), gRPC 1.51 stood
// still for ten seconds in a third of the runs while it searched.
constexpr int kWindowBytes = 1 << 20;

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlConnection>> ControlConnection::Dial(const std::string& address,
                                                                           absl::Duration timeout,
                                                                           absl::Duration write_timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kUnlimited);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + timeout))) {
    return absl::DeadlineExceededError(
        absl::StrCat("no server answered at ", address, " within ", absl::FormatDuration(timeout)));
  }
  return std::unique_ptr<ControlConnection>(new ControlConnection(channel, write_timeout));
}

ControlConnection::ControlConnection(const std::shared_ptr<grpc::Channel>& channel, absl::Duration write_timeout)
    : stub_(v1::WorkerControlService::NewStub(channel)),
      stream_(stub_->Connect(&context_)),
      write_timeout_(write_timeout),
      watchdog_(write_timeout / 4, [this] { CancelLongWrite(); }) {}

ControlConnection::~ControlConnection() {
  if (is_finished_) return;
  Cancel();
  v1::ConnectResponse dropped;
  while (Read(&dropped)) continue;
  Finish().IgnoreError();  // CANCELLED, by the line above
}

void ControlConnection::Send(const v1::ConnectRequest& message) {
  MutexLock lock(write_mutex_);
  if (is_closed_) return;
  write_begun_ = Clock::now();
  if (!stream_->Write(message)) is_closed_ = true;
  write_begun_ = Clock::time_point();
}

// Without the mutex, which the write holds.
void ControlConnection::CancelLongWrite() {
  const Clock::time_point begun = write_begun_;
  if (begun == Clock::time_point() || absl::FromChrono(Clock::now() - begun) <= write_timeout_) return;
  LogError("the server does not read; breaking the control stream",
           {{"timeout", absl::FormatDuration(write_timeout_)}});
  Cancel();
}

void ControlConnection::CloseWrites() {
  MutexLock lock(write_mutex_);
  if (!std::exchange(is_closed_, true)) stream_->WritesDone();
}

absl::Status ControlConnection::Finish() {
  {
    MutexLock lock(write_mutex_);
    is_closed_ = true;
  }
  is_finished_ = true;
  return ToAbsl(stream_->Finish());
}

}  // namespace trireme::worker
