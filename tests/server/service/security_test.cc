// The service behind what guards its port, and what a hardened one keeps to itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/security/port_credentials.h"
#include "tests/server/service/details.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/certificates.h"

namespace trireme::server {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecretPath[] = "/srv/models/secret";

TestServerOptions WithToken(
    const std::string& token, std::function<void()> on_refused = [] {}) {
  const TestFolder folder;
  const auto credentials = MakePortCredentials({.auth_tokens = folder.Write("tokens", token)}, std::move(on_refused));
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  TestServerOptions options;
  options.credentials = *credentials;
  return options;
}

TestServerOptions Hardened() {
  TestServerOptions options;
  options.hides_internals = true;
  return options;
}

// The status of a call that carries nothing.
grpc::Status CallEmpty(const TestServer& server, const google::protobuf::MethodDescriptor& method) {
  grpc::GenericStub stub(server.NewChannel());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareCall(&context, absl::StrCat("/", method.service()->full_name(), "/", method.name()), &queue);
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  };
  grpc::Status status;
  call->StartCall(nullptr);
  await();
  call->WriteLast({}, {}, nullptr);
  await();
  call->Finish(&status, nullptr);
  await();
  return status;
}

TEST(GuardedService, AsksForATokenInEveryMethod) {
  TestServer server(WithToken("first-token-0123456789"));
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  for (const char* name : {"trireme.v1.InferenceService", "grpc.reflection.v1alpha.ServerReflection"}) {
    const google::protobuf::ServiceDescriptor* const service = pool->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    ASSERT_GT(service->method_count(), 0);
    for (int i = 0; i < service->method_count(); ++i) {
      EXPECT_EQ(CallEmpty(server, *service->method(i)).error_code(), StatusCode::UNAUTHENTICATED)
          << service->method(i)->full_name();
    }
  }
}

TEST(GuardedService, CountsCallsWithoutAGoodToken) {
  std::atomic<int> num_refused = 0;
  TestServer server(WithToken("first-token-0123456789", [&num_refused] { ++num_refused; }));
  const auto request = GenerateRequestFrom("token_ids { ids: 1 } stopping { max_tokens: 1 }");
  for (const char* token : {"Bearer first-token-0123456789", "Bearer wrong-token-0123456789", ""}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", token);
    server.Generate(request, &context);
  }
  EXPECT_EQ(num_refused, 2);
}

TEST(GuardedService, ServesWhoeverHasAToken) {
  TestServer server(WithToken("first-token-0123456789"));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer first-token-0123456789");
  EXPECT_TRUE(
      server.Generate(GenerateRequestFrom("token_ids { ids: 1 } stopping { max_tokens: 1 }"), &context).status.ok());
  server.health().SetServing(true);
  const auto health = grpc::health::v1::Health::NewStub(server.NewChannel());
  grpc::ClientContext health_context;
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_TRUE(health->Check(&health_context, {}, &response).ok());
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
}

TEST(HardenedService, KeepsTheCausesOfFaultsToItself) {
  TestServer server(Hardened());
  server.group().TakeDown(absl::UnavailableError(absl::StrCat("cannot read ", kSecretPath, " on host7")));
  const auto request = GenerateRequestFrom("token_ids { ids: 1 } stopping { max_tokens: 1 }");
  ::testing::internal::CaptureStderr();
  grpc::Status status;
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while ((status = server.Generate(request).status).ok() && absl::Now() < deadline) continue;
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "not available now: try again later");
  EXPECT_THAT(status.error_details(), Not(HasSubstr(kSecretPath)));
  EXPECT_EQ(ReasonOf(status), "UNAVAILABLE") << "details stay";
  EXPECT_TRUE(HasRetryInfo(status));
  EXPECT_THAT(log, HasSubstr(kSecretPath));
}

TEST(HardenedService, StillTellsClientsWhatTheyDidWrong) {
  TestServer server(Hardened());
  const grpc::Status status = server.Generate(GenerateRequestFrom("sampling { temperature: -1 }")).status;
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("sampling.temperature"));
  EXPECT_THAT(ViolatedFields(status), ::testing::ElementsAre("input", "sampling.temperature"));
}

TEST(HardenedService, AnswersAsBefore) {
  TestServer server(Hardened());
  const GenerateResult result =
      server.Generate(GenerateRequestFrom("token_ids { ids: 1 } stopping { max_tokens: 5 ignore_eos: true }"));
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.completion().token_ids_size(), 5);
}

TEST(HardenedService, TellsNeitherHostsNorProcessesNorFaults) {
  TestServer server(Hardened());
  GroupStatus group;
  group.ranks.resize(1);
  group.ranks[0].host = "host7";
  group.ranks[0].pid = 1234;
  group.ranks[0].device = "cpu";
  group.num_restarts = 3;
  group.last_loss = {{.kind = CauseKind::kFailed,
                      .rank = 0,
                      .status = absl::UnavailableError(absl::StrCat("cannot read ", kSecretPath))},
                     absl::Now()};
  server.set_group_status(group);
  v1::GetServerInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().GetServerInfo(&context, {}, &info).ok());
  EXPECT_THAT(info.DebugString(), Not(::testing::AnyOf(HasSubstr("host7"), HasSubstr("1234"), HasSubstr("secret"))));
  EXPECT_EQ(info.build_id(), "");
  EXPECT_FALSE(info.has_last_loss());
  EXPECT_NE(info.version(), "");
  EXPECT_EQ(info.group_restarts(), 3u);
  EXPECT_EQ(info.ranks(0).device(), "cpu");
}

}  // namespace
}  // namespace trireme::server
