#include "server/service/rpc_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/service/health_service.h"
#include "tests/server/service/service_fixture.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kMiB = 1 << 20;

// Whether the server knows the reflection service, asked with a stream that carries nothing.
bool HasReflection(const TestServer& server) {
  grpc::GenericStub stub(server.NewChannel());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  call->WritesDone(nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status.error_code() != grpc::StatusCode::UNIMPLEMENTED;
}

TEST(RpcServer, RefusesATakenPortByName) {
  HealthService health;
  auto first = RpcServer::Start({.listen = "127.0.0.1:0", .max_message_bytes = kMiB}, {&health});
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  HealthService other_health;
  const auto second = RpcServer::Start({.listen = address, .max_message_bytes = kMiB}, {&other_health});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

TEST(RpcServer, RefusesAnAddressThatIsNone) {
  HealthService health;
  const auto server = RpcServer::Start({.listen = "no such host:99999", .max_message_bytes = kMiB}, {&health});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("no such host:99999"));
}

TEST(RpcServer, HasReflectionOnlyIfAskedTo) {
  EXPECT_TRUE(HasReflection(TestServer({.has_reflection = true})));
  EXPECT_FALSE(HasReflection(TestServer({.has_reflection = false})));
}

// Reflection answers from the pool of linked descriptors.
TEST(RpcServer, LinksTheDescriptorsThatReflectionIsAskedFor) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const google::protobuf::ServiceDescriptor* service = pool->FindServiceByName("trireme.v1.InferenceService");
  ASSERT_NE(service, nullptr);
  EXPECT_NE(service->FindMethodByName("Generate"), nullptr);
  EXPECT_NE(pool->FindServiceByName("grpc.health.v1.Health"), nullptr);
}

}  // namespace
}  // namespace trireme::server
