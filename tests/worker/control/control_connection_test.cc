#include "worker/control/control_connection.h"

#include <gtest/gtest.h>

#include <memory>

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

}  // namespace
}  // namespace trireme::worker
