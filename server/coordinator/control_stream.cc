#include "server/coordinator/control_stream.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace trireme::server {

namespace v1 = worker::v1;

grpc::ByteBuffer Serialize(const v1::ConnectResponse& message) {
  grpc::ByteBuffer buffer;
  bool is_own_buffer = false;
  const grpc::Status status =
      grpc::SerializationTraits<v1::ConnectResponse>::Serialize(message, &buffer, &is_own_buffer);
  CHECK(status.ok()) << status.error_message();
  return buffer;
}

std::shared_ptr<ControlStream> ControlStream::Open(ControlEvents* events, absl::Duration patience) {
  std::shared_ptr<ControlStream> stream(new ControlStream(events));
  stream->self_ = stream;
  stream->GiveUpAfter(patience);
  stream->ReadNext();
  return stream;
}

// The alarm, which the stream owns, keeps no stream alive.
void ControlStream::GiveUpAfter(absl::Duration patience) {
  alarm_.Set(absl::ToChronoTime(absl::Now() + patience), [stream = weak_from_this()](bool is_time) {
    const std::shared_ptr<ControlStream> alive = stream.lock();
    if (alive == nullptr || !is_time) return;
    alive->CloseStranger({grpc::StatusCode::DEADLINE_EXCEEDED, "no Hello has come"});
  });
}

bool ControlStream::is_stranger() {
  MutexLock lock(mutex_);
  return !has_spoken_ && !is_finished_;
}

void ControlStream::CloseStranger(const grpc::Status& status) {
  MutexLock lock(mutex_);
  if (has_spoken_ || std::exchange(is_finished_, true)) return;
  Finish(status);
}

absl::Status ControlStream::Send(const grpc::ByteBuffer& message) {
  MutexLock lock(mutex_);
  if (is_finished_ || is_broken_) return absl::OkStatus();
  if (waiting_.size() >= kMaxWaiting) {
    return absl::ResourceExhaustedError(absl::StrCat("takes no messages: ", waiting_.size(), " are waiting"));
  }
  waiting_.push_back(message);
  if (waiting_.size() == 1) StartWrite(&waiting_.front());
  return absl::OkStatus();
}

void ControlStream::Close(const grpc::Status& status) {
  MutexLock lock(mutex_);
  if (std::exchange(is_finished_, true)) return;
  Finish(status);
}

void ControlStream::ReadNext() {
  MutexLock lock(mutex_);
  if (!is_finished_) StartRead(&incoming_);
}

void ControlStream::OnReadDone(bool ok) {
  if (!ok) {
    if (peer_) events_->OnEnd(*peer_);
    Close(grpc::Status::OK);
    return;
  }
  {
    MutexLock lock(mutex_);
    has_spoken_ = true;
  }
  if (const grpc::Status status = Dispatch(); !status.ok()) {
    Close(status);
    return;
  }
  ReadNext();
}

grpc::Status ControlStream::Dispatch() {
  v1::ConnectRequest message;
  if (!grpc::SerializationTraits<v1::ConnectRequest>::Deserialize(&incoming_, &message).ok()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "not a ConnectRequest"};
  }
  if (peer_) {
    events_->OnMessage(*peer_, std::move(message));
    return grpc::Status::OK;
  }
  if (!message.has_hello()) return {grpc::StatusCode::FAILED_PRECONDITION, "the first message must be Hello"};
  const absl::StatusOr<PeerId> peer = events_->OnHello(message.hello(), shared_from_this());
  if (!peer.ok()) {
    return {static_cast<grpc::StatusCode>(peer.status().code()), std::string(peer.status().message())};
  }
  peer_ = *peer;
  return grpc::Status::OK;
}

void ControlStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  waiting_.pop_front();
  if (!ok) is_broken_ = true;
  if (!is_finished_ && !is_broken_ && !waiting_.empty()) StartWrite(&waiting_.front());
}

void ControlStream::OnCancel() {
  MutexLock lock(mutex_);
  is_broken_ = true;
}

void ControlStream::OnDone() { const std::shared_ptr<ControlStream> last = std::move(self_); }

}  // namespace trireme::server
