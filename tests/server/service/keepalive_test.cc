// What a client may do with a connection: how often it may ping, how many streams it may have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "server/service/health_service.h"
#include "server/service/rpc_server.h"

namespace trireme::server {
namespace {

namespace health = grpc::health::v1;

// gRPC throws a client out at its third ping too many: time for more than that.
constexpr int kNumPings = 6;

class KeepaliveTest : public testing::Test {
 protected:
  KeepaliveTest() {
    auto server = RpcServer::Start({.listen = "127.0.0.1:0", .max_message_bytes = 1 << 20}, {&health_});
    CHECK_OK(server.status());
    server_ = *std::move(server);
  }
  ~KeepaliveTest() override { health_.Shutdown(); }

  // A connected channel that pings at this interval, whether there are calls or not.
  std::shared_ptr<grpc::Channel> ChannelThatPings(absl::Duration interval) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(absl::ToInt64Milliseconds(interval)));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    const auto channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                                   grpc::InsecureChannelCredentials(), arguments);
    CHECK(channel->WaitForConnected(absl::ToChronoTime(absl::Now() + absl::Seconds(20))));
    return channel;
  }

  // Whether the connection is lost within `patience`.
  static bool IsThrownOut(grpc::Channel& channel, absl::Duration patience) {
    return channel.WaitForStateChange(GRPC_CHANNEL_READY, absl::ToChronoTime(absl::Now() + patience));
  }

  HealthService health_;
  std::unique_ptr<RpcServer> server_;
};

// A stream on which nothing more comes.
class SilentStream {
 public:
  explicit SilentStream(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(health::Health::NewStub(channel)), reader_(stub_->Watch(&context_, {})) {
    health::HealthCheckResponse first;
    EXPECT_TRUE(reader_->Read(&first));
  }
  // OK unless it was ended by someone else before.
  grpc::Status Cancel() {
    context_.TryCancel();
    const grpc::Status status = reader_->Finish();
    return status.error_code() == grpc::StatusCode::CANCELLED ? grpc::Status::OK : status;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<health::Health::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<health::HealthCheckResponse>> reader_;
};

TEST_F(KeepaliveTest, AClientMayPingEveryTwoSecondsWithAStreamOrWithout) {
  const absl::Duration interval = absl::Seconds(2);
  const auto idle = ChannelThatPings(interval);
  const auto busy = ChannelThatPings(interval);
  SilentStream stream(busy);
  EXPECT_FALSE(IsThrownOut(*idle, kNumPings * interval));
  EXPECT_FALSE(IsThrownOut(*busy, absl::ZeroDuration()));
  const grpc::Status status = stream.Cancel();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// A connection without gRPC, which pings at will.
class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const timeval patience = {.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawConnection() { close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  void Send(const std::string& bytes) {
    CHECK_EQ(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  // Until the server closes the connection, or says nothing for 20 s.
  std::string ReadToTheEnd() {
    std::string all;
    char bytes[4096];
    for (ssize_t count; (count = recv(socket_, bytes, sizeof(bytes), 0)) > 0;) {
      all.append(bytes, static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  const int socket_;
};

// RFC 9113, 4.1: length, type, flags, stream 0, payload.
std::string Frame(char type, const std::string& payload) {
  return std::string{0, 0, static_cast<char>(payload.size()), type, 0, 0, 0, 0, 0} + payload;
}

// The beginning of a connection, and pings until the server closes it.
std::string Flood() {
  constexpr char kSettings = 4, kPing = 6;
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, "");
  for (int i = 0; i < 100; ++i) bytes += Frame(kPing, "8 bytes.");
  return bytes;
}

TEST_F(KeepaliveTest, AClientThatFloodsWithPingsIsThrownOut) {
  RawConnection connection(server_->port());
  connection.Send(Flood());
  EXPECT_THAT(connection.ReadToTheEnd(), testing::HasSubstr("too_many_pings"));
}

TEST_F(KeepaliveTest, AClientIsToldHowManyStreamsItMayHave) {
  RawConnection connection(server_->port());
  connection.Send(Flood());
  // RFC 9113, 6.5.1: the setting's number, and 4096 in 32 bits.
  const std::string max_concurrent_streams = {0, 3, 0, 0, 0x10, 0};
  EXPECT_THAT(connection.ReadToTheEnd(), testing::HasSubstr(max_concurrent_streams));
}

}  // namespace
}  // namespace trireme::server
