#include "worker/control/control_connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/check.h"
#include "tests/worker/control/recording_host.h"

namespace trireme::worker {
namespace {

class ControlConnectionTest : public testing::Test {
 protected:
  ControlConnectionTest() {
    absl::StatusOr<std::unique_ptr<ControlConnection>> connection =
        ControlConnection::Dial(host_.address(), absl::Seconds(10));
    CHECK_OK(connection.status());
    connection_ = *std::move(connection);
    v1::ConnectRequest hello;
    hello.mutable_hello()->set_spawn_token("token");
    connection_->Send(hello);
    CHECK(host_.Next().has_hello());
  }

  server::RecordingHost host_;
  std::unique_ptr<ControlConnection> connection_;
};

TEST_F(ControlConnectionTest, EndsAsAgreedWhenBothSidesHaveClosed) {
  connection_->CloseWrites();
  connection_->CloseWrites();
  v1::ConnectResponse message;
  EXPECT_FALSE(connection_->Read(&message));
  EXPECT_TRUE(connection_->Finish().ok());
  connection_->Send({});  // dropped
}

TEST_F(ControlConnectionTest, CancelEndsARead) {
  connection_->Cancel();
  v1::ConnectResponse message;
  EXPECT_FALSE(connection_->Read(&message));
  EXPECT_EQ(connection_->Finish().code(), absl::StatusCode::kCancelled);
}

// A server that accepts the stream and reads nothing of it.
class DeafServer : public v1::WorkerControlService::Service {
 public:
  DeafServer() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~DeafServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }

  grpc::Status Connect(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::ConnectResponse, v1::ConnectRequest>*) override {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!context->IsCancelled() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
    return grpc::Status::CANCELLED;
  }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST(ControlConnection, BreaksTheStreamIfTheServerDoesNotRead) {
  DeafServer server;
  const auto connection = ControlConnection::Dial(server.address(), absl::Seconds(10), absl::Milliseconds(200));
  ASSERT_TRUE(connection.ok()) << connection.status();
  v1::ConnectRequest message;
  message.mutable_failure()->set_message(std::string(1 << 20, 'x'));
  const absl::Time begun = absl::Now();
  for (int i = 0; i < 32; ++i) (*connection)->Send(message);  // more than all windows on the way hold
  EXPECT_GE(absl::Now() - begun, absl::Milliseconds(200)) << "no message had to wait";
  EXPECT_LT(absl::Now() - begun, absl::Seconds(10));
  v1::ConnectResponse dropped;
  EXPECT_FALSE((*connection)->Read(&dropped));
  EXPECT_EQ((*connection)->Finish().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace trireme::worker
