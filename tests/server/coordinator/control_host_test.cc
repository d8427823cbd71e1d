#include "server/coordinator/control_host.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/clock.h"
#include "tests/worker/control/recording_host.h"
#include "trireme/worker/v1/control.grpc.pb.h"

namespace trireme::server {
namespace {

namespace v1 = worker::v1;

// A client that says what it likes.
class Dialler {
 public:
  explicit Dialler(const std::string& address)
      : stub_(v1::WorkerControlService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        stream_(stub_->Connect(&context_)) {}
  ~Dialler() {
    context_.TryCancel();
    Finish();
  }

  void SayHello(const std::string& token) {
    v1::ConnectRequest message;
    message.mutable_hello()->set_spawn_token(token);
    stream_->Write(message);
  }
  void Send(const v1::ConnectRequest& message) { stream_->Write(message); }
  bool Read(v1::ConnectResponse* message) { return stream_->Read(message); }
  // Reads to the end first.
  grpc::Status Finish() {
    v1::ConnectResponse message;
    while (!is_finished_ && stream_->Read(&message)) continue;
    if (!std::exchange(is_finished_, true)) status_ = stream_->Finish();
    return status_;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::WorkerControlService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>> stream_;
  bool is_finished_ = false;
  grpc::Status status_;
};

v1::ConnectResponse StepOfSize(std::size_t tokens) {
  v1::ConnectResponse message;
  message.mutable_step()->add_admits()->mutable_tokens()->Resize(static_cast<int>(tokens), 1);
  return message;
}

TEST(ControlHost, RefusesAStranger) {
  RecordingHost host;
  Dialler dialler(host.address());
  dialler.SayHello("guess");
  EXPECT_EQ(dialler.Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST(ControlHost, RefusesWhoeverDoesNotSayHelloFirst) {
  RecordingHost host;
  Dialler dialler(host.address());
  v1::ConnectRequest message;
  message.mutable_heartbeat();
  dialler.Send(message);
  EXPECT_EQ(dialler.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(ControlHost, RefusesWhatIsNoMessage) {
  RecordingHost host;
  Dialler good(host.address());
  grpc::GenericStub stub(grpc::CreateChannel(host.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(&context, "/trireme.worker.v1.WorkerControlService/Connect", &queue);
  const auto await = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok);
  };
  grpc::Slice slice("\xff\xff\xff");
  const grpc::ByteBuffer garbage(&slice, 1);
  grpc::Status status;
  stream->StartCall(nullptr);
  await();
  stream->Write(garbage, nullptr);
  await();
  stream->Finish(&status, nullptr);
  await();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  good.SayHello("token");
  EXPECT_TRUE(host.Next().has_hello()) << "the others go on";
}

// A plain connection to the host's socket.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address) : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    address.copy(name.sun_path, sizeof(name.sun_path) - 1, std::string_view("unix:").size());
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0) << address;
  }
  ~RawConnection() { close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  void Write(const std::string& bytes) {
    EXPECT_EQ(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  bool IsClosedByPeer() {
    pollfd poll_for = {.fd = socket_, .events = POLLIN, .revents = 0};
    char byte;
    while (poll(&poll_for, 1, 20'000) == 1) {
      if (recv(socket_, &byte, 1, 0) <= 0) return true;
    }
    return false;
  }

 private:
  const int socket_;
};

bool IsAWorkerAdmitted(RecordingHost& host) {
  Dialler worker(host.address());
  worker.SayHello("token");
  return host.Next().has_hello();
}

TEST(ControlHost, IsOpenToItsUserOnly) {
  RecordingHost host;
  const std::filesystem::path path = host.address().substr(std::string_view("unix:").size());
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::filesystem::status(path.parent_path()).permissions(), std::filesystem::perms(0700));
}

TEST(ControlHost, EndsAStreamThatSaysNothing) {
  RecordingHost host({.hello_timeout = absl::Milliseconds(50)});
  Dialler silent(host.address());
  EXPECT_EQ(silent.Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(IsAWorkerAdmitted(host));
}

TEST(ControlHost, ForgetsTheDeadlineOfAWorkerThatHasSpoken) {
  RecordingHost host({.hello_timeout = absl::Seconds(1)});
  Dialler worker(host.address());
  worker.SayHello("token");
  ASSERT_TRUE(host.Next().has_hello());
  absl::SleepFor(absl::Milliseconds(1500));
  v1::ConnectRequest message;
  message.mutable_ready();
  worker.Send(message);
  EXPECT_TRUE(host.Next().has_ready());
}

// Streams that are opened all at once and say nothing.
class SilentStreams {
 public:
  SilentStreams(const std::string& address, std::size_t count)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())), calls_(count) {
    for (Call& call : calls_) {
      call.stream = stub_.PrepareCall(&call.context, "/trireme.worker.v1.WorkerControlService/Connect", &queue_);
      call.stream->StartCall(nullptr);
      call.stream->Finish(&call.status, &call);
    }
  }
  ~SilentStreams() {
    for (Call& call : calls_) call.context.TryCancel();
    while (NextEnded() != nullptr) continue;
    EXPECT_EQ(num_ended_, calls_.size());
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) continue;
  }

  // How the one that ends next ends, whichever that is; null after 20 seconds in which none did, or if none is left.
  const grpc::Status* NextEnded() {
    void* tag = nullptr;
    bool ok = false;
    while (num_ended_ < calls_.size()) {
      const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(20);
      if (queue_.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) return nullptr;
      if (tag == nullptr) continue;  // a start
      ++num_ended_;
      return &static_cast<Call*>(tag)->status;
    }
    return nullptr;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
    grpc::Status status;
  };

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::vector<Call> calls_;
  std::size_t num_ended_ = 0;
};

TEST(ControlHost, LetsAWorkerThroughAFloodOfStrangers) {
  RecordingHost host({.hello_timeout = absl::Seconds(100), .max_strangers = 4});
  SilentStreams strangers(host.address(), 50);
  for (int i = 0; i < 50 - 4; ++i) {
    const grpc::Status* const status = strangers.NextEnded();
    ASSERT_NE(status, nullptr) << i;
    EXPECT_EQ(status->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << i;
  }
  for (int i = 0; i < 50; ++i) Dialler(host.address()).SayHello("guess");
  EXPECT_TRUE(IsAWorkerAdmitted(host));
}

TEST(ControlHost, RefusesAHugeMessage) {
  RecordingHost host;
  Dialler dialler(host.address());
  dialler.SayHello(std::string(65 << 20, 'x'));
  EXPECT_EQ(dialler.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(IsAWorkerAdmitted(host));
}

TEST(ControlHost, OutlivesGarbageAndSilenceOnItsSocket) {
  RecordingHost host;
  RawConnection garbage(host.address());
  garbage.Write(std::string(100'000, 'x'));
  EXPECT_TRUE(garbage.IsClosedByPeer());
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<RawConnection>(host.address()));
  RawConnection preface_and_garbage(host.address());
  preface_and_garbage.Write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(100'000, '\xff'));
  EXPECT_TRUE(preface_and_garbage.IsClosedByPeer());
  EXPECT_TRUE(IsAWorkerAdmitted(host));
}

TEST(ControlHost, ARankThatDoesNotReadFillsItsQueueAndBlocksNobody) {
  RecordingHost host;
  Dialler dialler(host.address());
  dialler.SayHello("token");
  ASSERT_TRUE(host.Next().has_hello());
  const grpc::ByteBuffer big = Serialize(StepOfSize(100'000));
  const absl::Time start = absl::Now();
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = host.stream()->Send(big);
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  host.EndStream();  // with a write outstanding
  EXPECT_EQ(dialler.Finish().error_message(), "the test is over");
}

TEST(ControlHost, WhatIsSentAfterTheEndGoesNowhere) {
  RecordingHost host;
  Dialler dialler(host.address());
  dialler.SayHello("token");
  ASSERT_TRUE(host.Next().has_hello());
  host.EndStream();
  host.EndStream();
  EXPECT_TRUE(host.stream()->Send(Serialize(StepOfSize(1))).ok());
  EXPECT_EQ(dialler.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(host.stream()->Send(Serialize(StepOfSize(1))).ok());
}

TEST(ControlHost, TellsWhenAWorkerIsGone) {
  RecordingHost host;
  {
    Dialler dialler(host.address());
    dialler.SayHello("token");
    ASSERT_TRUE(host.Next().has_hello());
  }
  EXPECT_TRUE(host.AwaitEnd());
}

TEST(ControlHost, EndsQuicklyWithStreamsOpen) {
  auto host = std::make_unique<RecordingHost>();
  Dialler dialler(host->address());
  dialler.SayHello("token");
  ASSERT_TRUE(host->Next().has_hello());
  const absl::Time start = absl::Now();
  host.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  EXPECT_FALSE(dialler.Finish().ok());
}

}  // namespace
}  // namespace trireme::server
