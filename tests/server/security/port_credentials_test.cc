#include "server/security/port_credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/certificates.h"

namespace trireme::server {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

constexpr char kMethod[] = "/any.Service/Method";
constexpr char kHealth[] = "/grpc.health.v1.Health/Check";
constexpr char kToken[] = "first-token-0123456789";
constexpr char kOtherToken[] = "other-token-0123456789";

// A server that answers every method of every service, on a port with the credentials under test.
class Server final : public grpc::CallbackGenericService {
 public:
  explicit Server(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    EXPECT_NE(port_, 0);
  }
  ~Server() { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }
  int num_handled() const { return num_handled_; }
  bool has_seen_a_token() const { return has_seen_a_token_; }

 private:
  class Answer final : public grpc::ServerGenericBidiReactor {
   public:
    Answer() { Finish(grpc::Status::OK); }
    void OnDone() override { delete this; }
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    ++num_handled_;
    if (context->client_metadata().contains("authorization")) has_seen_a_token_ = true;
    return new Answer;
  }

  int port_ = 0;
  std::atomic<int> num_handled_ = 0;
  std::atomic<bool> has_seen_a_token_ = false;
  std::unique_ptr<grpc::Server> server_;
};

// A client with a connection of its own.
class Client {
 public:
  Client(const Server& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(server.target(), credentials, arguments));
  }

  grpc::Status Call(const std::string& method, const std::optional<std::string>& authorization = std::nullopt) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    if (authorization) context.AddMetadata("authorization", *authorization);
    grpc::CompletionQueue queue;
    const auto call = stub_->PrepareCall(&context, method, &queue);
    grpc::Status status;
    call->StartCall(nullptr);
    Await(queue);
    call->Finish(&status, nullptr);
    Await(queue);
    return status;
  }

 private:
  static void Await(grpc::CompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  }

  std::unique_ptr<grpc::GenericStub> stub_;
};

std::shared_ptr<grpc::ChannelCredentials> Trusting(const TestAuthority& authority,
                                                   const KeyFiles& own = {.certificate = "", .key = ""}) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ReadAll(authority.certificate());
  if (!own.certificate.empty()) {
    options.pem_cert_chain = ReadAll(own.certificate);
    options.pem_private_key = ReadAll(own.key);
  }
  return grpc::SslCredentials(options);
}

std::string Bearer(const std::string& token) { return "Bearer " + token; }

std::shared_ptr<grpc::ServerCredentials> Make(PortSecurity security) {
  security.reload_interval = absl::Milliseconds(10);
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials = MakePortCredentials(security);
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  return *credentials;
}

// Calls until the code is `code`, on a new connection each time.
bool Becomes(const Server& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
             const std::optional<std::string>& authorization, StatusCode code) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (absl::Now() < deadline) {
    if (Client(server, credentials).Call(kMethod, authorization).error_code() == code) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

class PortCredentialsTest : public ::testing::Test {
 protected:
  void WriteTokens(const std::string& text) { folder_.Write("tokens", text); }

  // Puts them where the server looks.
  void Install(const KeyFiles& files) {
    folder_.Write("server.key", ReadAll(files.key));
    folder_.Write("server.pem", ReadAll(files.certificate));
  }

  const TestFolder folder_;
  const std::string tokens_ = folder_.File("tokens");
  const std::string certificate_ = folder_.File("server.pem");
  const std::string key_ = folder_.File("server.key");
  const TestAuthority authority_;
  const std::shared_ptr<grpc::ChannelCredentials> plain_ = grpc::InsecureChannelCredentials();
};

TEST_F(PortCredentialsTest, LetEverybodyInWhereNothingIsAskedFor) {
  const Server server(Make({}));
  EXPECT_TRUE(Client(server, plain_).Call(kMethod).ok());
}

TEST_F(PortCredentialsTest, LetNoCallWithoutATokenReachItsHandler) {
  WriteTokens(kToken);
  const Server server(Make({.auth_tokens = tokens_}));
  Client client(server, plain_);
  EXPECT_EQ(client.Call(kMethod).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(client.Call(kMethod).error_message(), HasSubstr("needs a token"));
  EXPECT_EQ(client.Call(kMethod, Bearer(kOtherToken)).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(client.Call(kMethod, kToken).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(client.Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo").error_code(),
            StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(client.Call("/grpc.health.v1.Healthy/Check").error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(client.Call("/x/grpc.health.v1.Health/Check").error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(server.num_handled(), 0);
}

TEST_F(PortCredentialsTest, LetCallsWithATokenInAndKeepItFromHandlers) {
  WriteTokens(absl::StrCat(kToken, "\n", kOtherToken));
  const Server server(Make({.auth_tokens = tokens_}));
  Client client(server, plain_);
  EXPECT_TRUE(client.Call(kMethod, Bearer(kToken)).ok());
  EXPECT_TRUE(client.Call(kMethod, Bearer(kOtherToken)).ok());
  EXPECT_TRUE(client.Call(kHealth, Bearer("not even a token")).ok());
  EXPECT_EQ(server.num_handled(), 3);
  EXPECT_FALSE(server.has_seen_a_token());
}

TEST_F(PortCredentialsTest, LetHealthChecksInWithoutAToken) {
  WriteTokens(kToken);
  const Server server(Make({.auth_tokens = tokens_}));
  EXPECT_TRUE(Client(server, plain_).Call(kHealth).ok());
}

TEST_F(PortCredentialsTest, FollowTheTokenFileOnOpenConnections) {
  WriteTokens(kToken);
  const Server server(Make({.auth_tokens = tokens_}));
  Client client(server, plain_);
  ASSERT_TRUE(client.Call(kMethod, Bearer(kToken)).ok());
  WriteTokens(absl::StrCat(kToken, "\n", kOtherToken));  // rotation: first both, then the new one
  EXPECT_TRUE(Becomes(server, plain_, Bearer(kOtherToken), StatusCode::OK));
  EXPECT_TRUE(client.Call(kMethod, Bearer(kToken)).ok());
  WriteTokens(kOtherToken);
  EXPECT_TRUE(Becomes(server, plain_, Bearer(kToken), StatusCode::UNAUTHENTICATED));
  EXPECT_EQ(client.Call(kMethod, Bearer(kToken)).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(client.Call(kMethod, Bearer(kOtherToken)).ok());
}

TEST_F(PortCredentialsTest, KeepTheTokensWhileTheFileIsBad) {
  WriteTokens(kToken);
  const Server server(Make({.auth_tokens = tokens_}));
  ::testing::internal::CaptureStderr();
  WriteTokens("short");
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_TRUE(Client(server, plain_).Call(kMethod, Bearer(kToken)).ok());
  EXPECT_EQ(Client(server, plain_).Call(kMethod, Bearer("short")).error_code(), StatusCode::UNAUTHENTICATED);
  WriteTokens(kOtherToken);
  EXPECT_TRUE(Becomes(server, plain_, Bearer(kOtherToken), StatusCode::OK));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("line 1: a token of 5 characters"));
}

TEST_F(PortCredentialsTest, LeaveOtherServersOfTheProcessAlone) {
  WriteTokens(kToken);
  const Server guarded(Make({.auth_tokens = tokens_}));
  const Server open(grpc::InsecureServerCredentials());
  EXPECT_TRUE(Client(open, plain_).Call(kMethod).ok());
  EXPECT_FALSE(Client(guarded, plain_).Call(kMethod).ok());
}

TEST_F(PortCredentialsTest, MayBeUsedForSeveralPorts) {
  Install(authority_.Issue("server"));
  const auto credentials = Make({.tls_certificate = certificate_, .tls_key = key_});
  const Server one(credentials);
  const Server other(credentials);
  EXPECT_TRUE(Client(one, Trusting(authority_)).Call(kMethod).ok());
  EXPECT_TRUE(Client(other, Trusting(authority_)).Call(kMethod).ok());
}

TEST_F(PortCredentialsTest, SpeakTlsOnly) {
  Install(authority_.Issue("server"));
  const Server server(Make({.tls_certificate = certificate_, .tls_key = key_}));
  EXPECT_TRUE(Client(server, Trusting(authority_)).Call(kMethod).ok());
  EXPECT_EQ(Client(server, plain_).Call(kMethod).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(Client(server, Trusting(TestAuthority())).Call(kMethod).error_code(), StatusCode::UNAVAILABLE);
}

TEST_F(PortCredentialsTest, WithAnExpiredCertificateConvinceNobody) {
  Install(authority_.IssueExpired("server"));
  ::testing::internal::CaptureStderr();
  const Server server(Make({.tls_certificate = certificate_, .tls_key = key_}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("not valid now"));
  EXPECT_EQ(Client(server, Trusting(authority_)).Call(kMethod).error_code(), StatusCode::UNAVAILABLE);
}

TEST_F(PortCredentialsTest, FollowTheCertificateFilesForNewConnections) {
  Install(authority_.Issue("server"));
  const Server server(Make({.tls_certificate = certificate_, .tls_key = key_}));
  Client old_client(server, Trusting(authority_));
  ASSERT_TRUE(old_client.Call(kMethod).ok());
  const TestAuthority next;
  Install(next.Issue("server"));
  EXPECT_TRUE(Becomes(server, Trusting(next), std::nullopt, StatusCode::OK));
  EXPECT_EQ(Client(server, Trusting(authority_)).Call(kMethod).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_TRUE(old_client.Call(kMethod).ok()) << "connections outlive the certificate they began with";
}

TEST_F(PortCredentialsTest, KeepTheCertificateWhileTheFilesAreBad) {
  Install(authority_.Issue("server"));
  const Server server(Make({.tls_certificate = certificate_, .tls_key = key_}));
  ::testing::internal::CaptureStderr();
  folder_.Write("server.key", ReadAll(authority_.Issue("other").key));  // does not fit
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_TRUE(Client(server, Trusting(authority_)).Call(kMethod).ok());
  folder_.Write("server.pem", "garbage");
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_TRUE(Client(server, Trusting(authority_)).Call(kMethod).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(HasSubstr("is not that of"), HasSubstr("holds no certificate")));
}

TEST_F(PortCredentialsTest, AskForAClientCertificate) {
  Install(authority_.Issue("server"));
  const TestAuthority clients;
  const TestAuthority strangers;
  const std::string ca = folder_.Write("clients.pem", ReadAll(clients.certificate()));
  const Server server(Make({.tls_certificate = certificate_, .tls_key = key_, .tls_client_ca = ca}));
  EXPECT_TRUE(Client(server, Trusting(authority_, clients.Issue("good"))).Call(kMethod).ok());
  EXPECT_EQ(Client(server, Trusting(authority_)).Call(kMethod).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(Client(server, Trusting(authority_, strangers.Issue("bad"))).Call(kMethod).error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_EQ(Client(server, Trusting(authority_, clients.IssueExpired("old"))).Call(kMethod).error_code(),
            StatusCode::UNAVAILABLE);
  folder_.Write("clients.pem", ReadAll(strangers.certificate()));
  EXPECT_TRUE(Becomes(server, Trusting(authority_, strangers.Issue("welcome")), std::nullopt, StatusCode::OK));
  EXPECT_EQ(Client(server, Trusting(authority_, clients.Issue("late"))).Call(kMethod).error_code(),
            StatusCode::UNAVAILABLE);
}

TEST_F(PortCredentialsTest, AskForATokenOverTlsToo) {
  Install(authority_.Issue("server"));
  WriteTokens(kToken);
  const Server server(Make({.tls_certificate = certificate_, .tls_key = key_, .auth_tokens = tokens_}));
  Client client(server, Trusting(authority_));
  EXPECT_EQ(client.Call(kMethod).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(client.Call(kMethod, Bearer(kToken)).ok());
  EXPECT_TRUE(client.Call(kHealth).ok());
  EXPECT_EQ(server.num_handled(), 2);
}

TEST_F(PortCredentialsTest, AreRefusedByNameWhereAFileIsNoGood) {
  const KeyFiles files = authority_.Issue("server");
  const KeyFiles other = authority_.Issue("other");
  const std::string bad = folder_.Write("bad", "nothing");
  const struct {
    PortSecurity security;
    std::string message_part;
  } cases[] = {
      {{.tls_certificate = files.certificate}, "--tls-key"},
      {{.tls_key = files.key}, "--tls-cert"},
      {{.tls_client_ca = authority_.certificate()}, "--tls-client-ca needs TLS"},
      {{.tls_certificate = "/nowhere", .tls_key = files.key}, "/nowhere"},
      {{.tls_certificate = bad, .tls_key = files.key}, bad + " holds no certificate"},
      {{.tls_certificate = files.certificate, .tls_key = bad}, bad + " holds no private key"},
      {{.tls_certificate = files.certificate, .tls_key = other.key}, other.key + " is not that of"},
      {{.tls_certificate = files.certificate, .tls_key = files.key, .tls_client_ca = bad}, bad + " holds no certif"},
      {{.auth_tokens = bad}, bad + ", line 1"},
      {{.auth_tokens = folder_.Write("empty", "")}, "holds no token"},
  };
  for (const auto& c : cases) {
    const absl::Status status = MakePortCredentials(c.security).status();
    EXPECT_FALSE(status.ok()) << c.message_part;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message_part));
  }
}

TEST_F(PortCredentialsTest, WarnOfSecretsThatEveryUserMayRead) {
  WriteTokens(kToken);
  std::filesystem::permissions(tokens_, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  ::testing::internal::CaptureStderr();
  Make({.auth_tokens = tokens_});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::AllOf(HasSubstr("every user of this host may read"), HasSubstr(tokens_)));
  EXPECT_THAT(log, ::testing::Not(HasSubstr(kToken)));
}

}  // namespace
}  // namespace trireme::server
