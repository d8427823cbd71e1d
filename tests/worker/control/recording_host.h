// A server for one worker: the real host, whose events a test takes one by one.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/mutex.h"
#include "server/coordinator/control_host.h"

namespace trireme::server {

class RecordingHost : public ControlEvents {
 public:
  explicit RecordingHost(ControlHostOptions options = {}) {
    absl::StatusOr<std::unique_ptr<ControlHost>> host = ControlHost::Start(this, options);
    CHECK_OK(host.status());
    host_ = *std::move(host);
  }

  const std::string& address() const { return host_->address(); }

  // The next message, heartbeats left out. Empty if none comes.
  worker::v1::ConnectRequest Next() {
    while (true) {
      worker::v1::ConnectRequest message = NextOfAll();
      if (!message.has_heartbeat()) return message;
    }
  }
  worker::v1::ConnectRequest NextOfAll() {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    MutexLock lock(mutex_);
    while (messages_.empty() && !has_ended_ && changed_.WaitUntil(mutex_, deadline)) continue;
    if (messages_.empty()) return {};
    worker::v1::ConnectRequest message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

  void Send(const worker::v1::ConnectResponse& message) { CHECK_OK(stream()->Send(Serialize(message))); }
  void Configure(int world_size = 1) {
    worker::v1::ConnectResponse message;
    worker::v1::Configure& configure = *message.mutable_configure();
    configure.set_world_size(static_cast<std::uint32_t>(world_size));
    configure.set_num_threads(1);
    configure.mutable_heartbeat_interval()->set_nanos(10'000'000);
    configure.mutable_collective_timeout()->set_seconds(60);
    Send(message);
  }
  void SendStep(std::uint64_t number) {
    worker::v1::ConnectResponse message;
    message.mutable_step()->set_number(number);
    message.mutable_step()->add_items()->set_slot(1);
    Send(message);
  }
  void Drain() {
    worker::v1::ConnectResponse message;
    message.mutable_drain();
    Send(message);
  }
  std::shared_ptr<ControlStream> stream() {
    MutexLock lock(mutex_);
    CHECK(stream_ != nullptr) << "no worker has said hello";
    return stream_;
  }
  void EndStream() { stream()->Close({grpc::StatusCode::UNAVAILABLE, "the test is over"}); }
  bool AwaitEnd() {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    MutexLock lock(mutex_);
    while (!has_ended_ && changed_.WaitUntil(mutex_, deadline)) continue;
    return has_ended_;
  }

  absl::StatusOr<PeerId> OnHello(const worker::v1::Hello& hello, std::shared_ptr<ControlStream> stream) override {
    if (hello.spawn_token() != "token") return absl::PermissionDeniedError("a stranger");
    worker::v1::ConnectRequest message;
    *message.mutable_hello() = hello;
    MutexLock lock(mutex_);
    stream_ = std::move(stream);
    messages_.push_back(message);
    changed_.SignalAll();
    return PeerId{};
  }
  void OnMessage(PeerId, worker::v1::ConnectRequest message) override {
    MutexLock lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.SignalAll();
  }
  void OnEnd(PeerId) override {
    MutexLock lock(mutex_);
    has_ended_ = true;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<worker::v1::ConnectRequest> messages_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ControlStream> stream_ ABSL_GUARDED_BY(mutex_);
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ControlHost> host_;  // last: its threads use all of the above
};

}  // namespace trireme::server
