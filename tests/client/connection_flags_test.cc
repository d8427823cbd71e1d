#include "client/cli/connection_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "client/cli/commands.h"
#include "client/inference_client.h"
#include "tests/client/scripted_server.h"
#include "tests/support/certificates.h"

namespace trireme::client {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "first-token-0123456789";

absl::StatusOr<ClientOptions> Parsed(const std::vector<std::string>& arguments) {
  ConnectionFlags connection;
  FlagParser flags("prog", "Does things.");
  connection.Declare(flags);
  const absl::StatusOr<ParsedFlags> parsed = flags.Parse(arguments);
  if (!parsed.ok()) return parsed.status();
  ClientOptions options;
  if (const absl::Status status = connection.Fill(options); !status.ok()) return status;
  return options;
}

std::string MessageFor(const std::vector<std::string>& arguments) {
  return std::string(Parsed(arguments).status().message());
}

class ConnectionFlagsTest : public ::testing::Test {
 protected:
  const TestFolder folder_;
};

TEST_F(ConnectionFlagsTest, WithoutAnyAskForNothing) {
  const absl::StatusOr<ClientOptions> options = Parsed({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_FALSE(options->tls.has_value());
  EXPECT_EQ(options->auth_token, "");
}

TEST_F(ConnectionFlagsTest, ReadWhatTheyName) {
  const TestAuthority authority;
  const KeyFiles own = authority.Issue("client");
  const absl::StatusOr<ClientOptions> options =
      Parsed({"--tls-ca", authority.certificate(), "--tls-cert", own.certificate, "--tls-key", own.key,
              "--tls-server-name", "trireme", "--auth-token-file", folder_.Write("token", std::string(kToken) + "\n")});
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_TRUE(options->tls.has_value());
  EXPECT_EQ(options->tls->root_certificates, ReadAll(authority.certificate()));
  EXPECT_EQ(options->tls->certificate_chain, ReadAll(own.certificate));
  EXPECT_EQ(options->tls->private_key, ReadAll(own.key));
  EXPECT_EQ(options->tls->server_name, "trireme");
  EXPECT_EQ(options->auth_token, kToken);
}

TEST_F(ConnectionFlagsTest, AskForTlsByAnyTlsFlag) {
  const TestAuthority authority;
  EXPECT_TRUE(Parsed({"--tls"})->tls.has_value());
  EXPECT_TRUE(Parsed({"--tls-ca", authority.certificate()})->tls.has_value());
  EXPECT_TRUE(Parsed({"--tls-server-name", "x"})->tls.has_value());
}

TEST_F(ConnectionFlagsTest, NameWhatIsWrong) {
  const TestAuthority authority;
  const KeyFiles own = authority.Issue("client");
  const std::string bad = folder_.Write("bad", "nothing");
  EXPECT_THAT(MessageFor({"--tls-ca", "/nowhere"}), HasSubstr("/nowhere"));
  EXPECT_THAT(MessageFor({"--tls-ca", bad}), HasSubstr(bad + " holds no certificate"));
  EXPECT_THAT(MessageFor({"--tls-cert", own.certificate}), HasSubstr("both --tls-cert and --tls-key"));
  EXPECT_THAT(MessageFor({"--tls-key", own.key}), HasSubstr("both --tls-cert and --tls-key"));
  EXPECT_THAT(MessageFor({"--tls-cert", own.certificate, "--tls-key", bad}), HasSubstr(bad));
  EXPECT_THAT(MessageFor({"--auth-token-file", bad}), HasSubstr(bad + ", line 1"));
  const std::string two = folder_.Write("two", std::string(kToken) + "\n" + kToken + "\n");
  EXPECT_THAT(MessageFor({"--auth-token-file", two}), HasSubstr("holds 2 tokens, expected one"));
}

TEST_F(ConnectionFlagsTest, EndACommandWithTheUsageStatus) {
  for (const std::string command : {"generate", "chat", "health"}) {
    std::istringstream in;
    std::ostringstream out, err;
    Terminal terminal{.in = in, .out = out, .err = err};
    std::vector<std::string> arguments = {command, "--tls-ca", "/nowhere"};
    if (command == "generate") arguments.insert(arguments.end(), {"--prompt", "x"});
    EXPECT_EQ(RunTrireme(arguments, terminal), kExitUsage) << command;
    EXPECT_THAT(err.str(), HasSubstr("/nowhere")) << command;
    EXPECT_THAT(err.str(), HasSubstr("See trireme " + command + " --help.")) << command;
  }
}

TEST(Channel, SendsTheTokenWithEveryAttempt) {
  int num_with_token = 0;
  ScriptedServer server([&](int call, grpc::ServerContext* context, Writer* writer) {
    const auto found = context->client_metadata().find("authorization");
    if (found != context->client_metadata().end() && found->second == std::string("Bearer ") + kToken) ++num_with_token;
    if (call < 2) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "loading");
    return SayHello(call, context, writer);
  });
  ClientOptions options;
  options.target = server.target();
  options.retry_delay = absl::Milliseconds(1);
  options.auth_token = kToken;
  InferenceClient client(options);
  EXPECT_EQ(client.Generate({}, {}, [](const v1::GenerateResponse&) {}), absl::OkStatus());
  EXPECT_EQ(num_with_token, 3);
}

TEST(Channel, RefusesToSendMoreThanTheLimitAndNamesBothSizes) {
  ScriptedServer server(SayHello);
  ClientOptions options;
  options.target = server.target();
  options.max_message_bytes = 1000;
  InferenceClient client(options);
  v1::GenerateRequest request;
  request.set_text(std::string(2000, 'x'));
  const absl::Status status = client.Generate(request, {}, [](const v1::GenerateResponse&) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ::testing::AllOf(HasSubstr("2003"), HasSubstr("1000")));
}

TEST(Channel, RefusesToReceiveMoreThanTheLimitAndNamesBothSizes) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer* writer) {
    writer->Write(ChunkOf(std::string(5000, 'x'), 1));
    return grpc::Status::OK;
  });
  ClientOptions options;
  options.target = server.target();
  options.max_message_bytes = 4000;
  const absl::Status status = InferenceClient(options).Generate({}, {}, [](const v1::GenerateResponse&) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ::testing::ContainsRegex("50[0-9][0-9] vs. 4000"));
}

}  // namespace
}  // namespace trireme::client
