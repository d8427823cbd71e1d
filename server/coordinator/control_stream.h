// The server's end of one worker's control stream: messages in, messages out, an end.
#pragma once
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "trireme/worker/v1/control.pb.h"

namespace trireme::server {

// A rank of one group's life.
struct PeerId {
  std::uint64_t generation = 0;
  int rank = 0;
  friend bool operator==(const PeerId&, const PeerId&) = default;
};

class ControlStream;

// What is done with streams. Called on gRPC's threads, for one stream in order, for several at the same time; must
// return at once. Lives longer than every stream.
class ControlEvents {
 public:
  virtual ~ControlEvents() = default;

  // A stream's first message. Who it is; or why it is refused, which is all that becomes of the stream.
  virtual absl::StatusOr<PeerId> OnHello(const worker::v1::Hello& hello, std::shared_ptr<ControlStream> stream) = 0;
  // Every other message.
  virtual void OnMessage(PeerId peer, worker::v1::ConnectRequest message) = 0;
  // No message follows.
  virtual void OnEnd(PeerId peer) = 0;
};

// Thread-safe. gRPC's callback API asks for: one write outstanding, whose buffer lives until OnWriteDone; Finish once,
// with no write or read started after it; no use after OnDone. Hence the lock, and the object keeps itself until then.
class ControlStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                      public std::enable_shared_from_this<ControlStream> {
 public:
  // A rank that lets so many messages wait has stopped reading: at most EngineOptions::max_steps_in_flight
  // steps, a few, are under way.
  static constexpr std::size_t kMaxWaiting = 64;

  // Begins to read. `events` is told of everything. The stream ends by itself, with DEADLINE_EXCEEDED, if no message
  // has come within `patience`.
  static std::shared_ptr<ControlStream> Open(ControlEvents* events, absl::Duration patience);

  // Has sent no message yet, and has not ended: may be anybody.
  bool is_stranger();

  // Ends it with `status` if it is a stranger.
  void CloseStranger(const grpc::Status& status);

  // Queues a serialized ConnectResponse, and returns at once. Nothing happens on a stream that has ended.
  // RESOURCE_EXHAUSTED when kMaxWaiting messages wait already.
  absl::Status Send(const grpc::ByteBuffer& message);

  // Ends the stream; what waits is dropped. Safe to call twice.
  void Close(const grpc::Status& status);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit ControlStream(ControlEvents* events) : events_(events) {}

  void GiveUpAfter(absl::Duration patience);
  void ReadNext();
  // OK to go on reading; else the stream ends with it.
  grpc::Status Dispatch();

  ControlEvents* const events_;
  std::shared_ptr<ControlStream> self_;  // until OnDone
  // Used by the read reactions only, which never run at the same time.
  grpc::ByteBuffer incoming_;
  std::optional<PeerId> peer_;

  grpc::Alarm alarm_;
  Mutex mutex_;
  bool has_spoken_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_broken_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<grpc::ByteBuffer> waiting_ ABSL_GUARDED_BY(mutex_);  // the front one is being written
};

// One serialization for any number of streams: copies of a ByteBuffer share its bytes.
grpc::ByteBuffer Serialize(const worker::v1::ConnectResponse& message);

}  // namespace trireme::server
