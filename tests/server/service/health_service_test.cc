#include "server/service/health_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/service/rpc_server.h"

namespace trireme::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthServiceTest : public ::testing::Test {
 protected:
  HealthServiceTest() {
    server_ = *RpcServer::Start({.listen = "127.0.0.1:0", .max_message_bytes = 1 << 20}, {&health_});
    stub_ = Health::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials()));
  }

  ~HealthServiceTest() override {
    health_.Shutdown();
    server_->Shutdown(absl::Now() + absl::Seconds(1));
  }

  static HealthCheckRequest About(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    return request;
  }

  HealthCheckResponse::ServingStatus Check(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckResponse response;
    EXPECT_TRUE(stub_->Check(&context, About(service), &response).ok());
    return response.status();
  }

  HealthService health_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<Health::Stub> stub_;
};

// An open watch.
struct Watcher {
  Watcher(Health::Stub& stub, const HealthCheckRequest& request) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    reader = stub.Watch(&context, request);
  }
  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    return reader->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
};

TEST_F(HealthServiceTest, IsNotServingAtFirst) {
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check("trireme.v1.InferenceService"), HealthCheckResponse::NOT_SERVING);
}

TEST_F(HealthServiceTest, ChecksTellWhatIsSet) {
  health_.SetServing(true);
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("trireme.v1.InferenceService"), HealthCheckResponse::SERVING);
  health_.SetServing(false);
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
}

TEST_F(HealthServiceTest, ChecksOfAnUnknownServiceAreNotFound) {
  grpc::ClientContext context;
  HealthCheckResponse response;
  EXPECT_EQ(stub_->Check(&context, About("nobody"), &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthServiceTest, WatchesStreamEachChange) {
  Watcher all(*stub_, About("")), service(*stub_, About("trireme.v1.InferenceService"));
  for (Watcher* watcher : {&all, &service}) EXPECT_EQ(watcher->Next(), HealthCheckResponse::NOT_SERVING);
  for (const bool is_serving : {true, false, true}) {
    health_.SetServing(is_serving);
    const auto expected = is_serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
    for (Watcher* watcher : {&all, &service}) EXPECT_EQ(watcher->Next(), expected);
  }
}

TEST_F(HealthServiceTest, WatchesOfAnUnknownServiceSaySo) {
  Watcher watcher(*stub_, About("nobody"));
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::SERVICE_UNKNOWN);
}

TEST_F(HealthServiceTest, WatchesEndPromptlyAtShutdown) {
  health_.SetServing(true);
  Watcher watcher(*stub_, About("")), unknown(*stub_, About("nobody"));
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::SERVING);
  EXPECT_EQ(unknown.Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  const absl::Time begin = absl::Now();
  health_.Shutdown();
  server_->Shutdown(begin + absl::Seconds(10));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::UNKNOWN);  // no more
  EXPECT_EQ(watcher.reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(HealthServiceTest, StaysNotServingAfterShutdown) {
  health_.Shutdown();
  health_.SetServing(true);
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
  Watcher watcher(*stub_, About(""));
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::UNKNOWN);
}

TEST_F(HealthServiceTest, SurvivesWatchersThatLeave) {
  for (int i = 0; i < 50; ++i) {
    Watcher watcher(*stub_, About(""));
    if (i % 2 == 0) watcher.Next();
    health_.SetServing(i % 3 == 0);
    watcher.context.TryCancel();
    watcher.reader->Finish();
  }
  health_.SetServing(true);
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
}

}  // namespace
}  // namespace trireme::server
