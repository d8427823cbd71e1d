// Clients of other makes against every set-up of the public port: Python's grpcio, grpcurl, and our own commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/certificates.h"

namespace trireme::end_to_end {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kModel[] = TRIREME_FIXTURES "/hf/text_llama";
constexpr char kPython[] = "/usr/bin/python3";  // Debian's, which Debian's grpcio is for
constexpr char kToken[] = "first-token-0123456789";
constexpr char kOtherToken[] = "other-token-0123456789";

struct Ran {
  int exit_status = -1;
  std::string output;  // both streams
};

Ran RunShell(const std::string& command) {
  Ran ran;
  FILE* const pipe = popen(absl::StrCat("timeout 60 ", command, " 2>&1").c_str(), "r");
  char bytes[4096];
  for (std::size_t count; (count = fread(bytes, 1, sizeof(bytes), pipe)) > 0;) ran.output.append(bytes, count);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.exit_status = WEXITSTATUS(status);
  return ran;
}

// What a client brings, as files. Empty: nothing.
struct Access {
  std::string ca = {};
  KeyFiles own = {};
  std::string token = {};
};

std::string Flag(const std::string& name, const std::string& value) {
  return value.empty() ? "" : absl::StrCat(" ", name, " ", value);
}

class Interop : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    has_grpcurl_ = RunShell("grpcurl -version").exit_status == 0;
    if (!has_grpcurl_) std::cerr << "no grpcurl on PATH: what it would be asked is left out\n";
    stubs_ = new TestFolder;
    const std::string out = absl::StrCat(" --python_out=", stubs_->File(""), " ");
    const std::string api = TRIREME_PROTO;
    ASSERT_EQ(RunShell(absl::StrCat("protoc -I ", api, out, "--grpc_python_out=", stubs_->File(""),
                                    " --plugin=protoc-gen-grpc_python=$(command -v grpc_python_plugin) ", api,
                                    "/trireme/v1/*.proto"))
                  .exit_status,
              0);
    // A root of its own: a Python package `grpc` here would hide grpcio's.
    ASSERT_EQ(RunShell(absl::StrCat("protoc -I ", api, "/grpc/health/v1", out, "health.proto")).exit_status, 0);
  }
  static void TearDownTestSuite() { delete stubs_; }

  void Install(const KeyFiles& files) const {
    folder_.Write("server.key", ReadAll(files.key));
    folder_.Write("server.pem", ReadAll(files.certificate));
  }

  std::vector<std::string> TlsFlags() const {
    return {"--tls-cert", folder_.File("server.pem"), "--tls-key", folder_.File("server.key")};
  }

  // "CODE what came".
  static std::string Python(ServerProcess& server, const std::string& what, const Access& access) {
    return RunShell(absl::StrCat("env GRPC_VERBOSITY=NONE ", kPython, " " TRIREME_INTEROP "/python_client.py ", what,
                                 " --stubs ", stubs_->File(""), " --target ", server.target(), Flag("--ca", access.ca),
                                 Flag("--cert", access.own.certificate), Flag("--key", access.own.key),
                                 Flag("--token", access.token)))
        .output;
  }

  static Ran Trireme(ServerProcess& server, const std::string& command, const Access& access) {
    return RunShell(absl::StrCat(TRIREME_BIN "/trireme ", command, " --target ", server.target(),
                                 Flag("--tls-ca", access.ca), Flag("--tls-cert", access.own.certificate),
                                 Flag("--tls-key", access.own.key), Flag("--auth-token-file", access.token)));
  }

  static Ran Grpcurl(ServerProcess& server, const std::string& call, const Access& access) {
    const std::string token = access.token.empty() ? "" : "'authorization: Bearer " + ReadAll(access.token) + "'";
    return RunShell(absl::StrCat("grpcurl -connect-timeout 3 -max-time 20", access.ca.empty() ? " -plaintext" : "",
                                 Flag("-cacert", access.ca), Flag("-cert", access.own.certificate),
                                 Flag("-key", access.own.key), Flag("-H", token), " ", server.target(), " ", call));
  }

  // Every client gets what it asks for.
  static void ExpectServed(ServerProcess& server, const Access& access) {
    EXPECT_EQ(Python(server, "generate", access), "OK 8 tokens\n");
    EXPECT_EQ(Python(server, "health", access), "OK SERVING\n");
    const Ran health = Trireme(server, "health", access);
    EXPECT_EQ(health.exit_status, 0);
    EXPECT_EQ(health.output, "SERVING\n");
    const Ran generate = Trireme(server, "generate --prompt x --max-tokens 4 --ignore-eos", access);
    EXPECT_EQ(generate.exit_status, 0) << generate.output;
    if (!has_grpcurl_) return;
    EXPECT_THAT(Grpcurl(server, "list", access).output, HasSubstr("trireme.v1.InferenceService"));
    EXPECT_THAT(Grpcurl(server, "trireme.v1.InferenceService/GetServerInfo", access).output,
                HasSubstr("SERVER_STATE_SERVING"));
    EXPECT_THAT(Grpcurl(server, "grpc.health.v1.Health/Check", access).output, HasSubstr("\"SERVING\""));
  }

  // No client gets a connection.
  static void ExpectShutOut(ServerProcess& server, const Access& access) {
    EXPECT_THAT(Python(server, "generate", access), StartsWith("UNAVAILABLE"));
    EXPECT_THAT(Python(server, "health", access), StartsWith("UNAVAILABLE"));
    const Ran health = Trireme(server, "health", access);
    EXPECT_EQ(health.exit_status, 1);
    EXPECT_THAT(health.output, HasSubstr("UNAVAILABLE"));
    if (has_grpcurl_) {
      EXPECT_NE(Grpcurl(server, "list", access).exit_status, 0);
    }
  }

  // Connections are fine, calls are not, but for health checks.
  static void ExpectUnauthenticated(ServerProcess& server, const Access& access) {
    EXPECT_THAT(Python(server, "generate", access), StartsWith("UNAUTHENTICATED"));
    EXPECT_THAT(Python(server, "server_info", access), StartsWith("UNAUTHENTICATED"));
    EXPECT_EQ(Python(server, "health", access), "OK SERVING\n");
    EXPECT_EQ(Trireme(server, "health", access).exit_status, 0);
    const Ran generate = Trireme(server, "generate --prompt x", access);
    EXPECT_EQ(generate.exit_status, 1);
    EXPECT_THAT(generate.output, HasSubstr("UNAUTHENTICATED"));
    if (has_grpcurl_) {
      EXPECT_THAT(Grpcurl(server, "list", access).output, HasSubstr("needs a token"));
    }
  }

  static bool BecomesServed(ServerProcess& server, const Access& access) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      if (Python(server, "server_info", access).starts_with("OK")) return true;
      absl::SleepFor(absl::Milliseconds(200));
    }
    return false;
  }

  static TestFolder* stubs_;
  static bool has_grpcurl_;
  const TestFolder folder_;
  const TestAuthority authority_;
  const TestAuthority stranger_;
};

TestFolder* Interop::stubs_ = nullptr;
bool Interop::has_grpcurl_ = false;

TEST_F(Interop, Plain) {
  ServerProcess server(kModel);
  ASSERT_TRUE(server.BecomesServing());
  ExpectServed(server, {});
  ExpectShutOut(server, {.ca = authority_.certificate()});
}

TEST_F(Interop, Tls) {
  Install(authority_.Issue("server"));
  ServerProcess server(kModel, TlsFlags());
  ASSERT_TRUE(server.BecomesServing());
  ExpectServed(server, {.ca = authority_.certificate()});
  ExpectShutOut(server, {});
  ExpectShutOut(server, {.ca = stranger_.certificate()});
  EXPECT_TRUE(server.WaitForLog("gRPC").has_value()) << "failed handshakes are told as other events are";
  EXPECT_THAT(Trireme(server, "health --tls-server-name elsewhere", {.ca = authority_.certificate()}).output,
              HasSubstr("UNAVAILABLE"))
      << "a certificate for another name";
}

TEST_F(Interop, TlsWithAnExpiredCertificate) {
  Install(authority_.IssueExpired("server"));
  ServerProcess server(kModel, TlsFlags());
  ASSERT_TRUE(server.BecomesServing());
  ExpectShutOut(server, {.ca = authority_.certificate()});
}

TEST_F(Interop, TlsWithARotatedCertificate) {
  Install(authority_.Issue("server"));
  ServerProcess server(kModel, TlsFlags());
  ASSERT_TRUE(server.BecomesServing());
  Install(stranger_.Issue("server"));
  EXPECT_TRUE(BecomesServed(server, {.ca = stranger_.certificate()}));
  ExpectServed(server, {.ca = stranger_.certificate()});
  ExpectShutOut(server, {.ca = authority_.certificate()});
}

TEST_F(Interop, ClientCertificates) {
  Install(authority_.Issue("server"));
  std::vector<std::string> flags = TlsFlags();
  flags.insert(flags.end(), {"--tls-client-ca", authority_.certificate()});
  ServerProcess server(kModel, flags);
  ASSERT_TRUE(server.BecomesServing());
  ExpectServed(server, {.ca = authority_.certificate(), .own = authority_.Issue("client")});
  ExpectShutOut(server, {.ca = authority_.certificate()});
  ExpectShutOut(server, {.ca = authority_.certificate(), .own = stranger_.Issue("client")});
  ExpectShutOut(server, {.ca = authority_.certificate(), .own = authority_.IssueExpired("old")});
}

TEST_F(Interop, Tokens) {
  const std::string right = folder_.Write("right", kToken);
  const std::string wrong = folder_.Write("wrong", kOtherToken);
  const std::string tokens = folder_.Write("tokens", kToken);
  ServerProcess server(kModel, {"--auth-tokens", tokens});
  ASSERT_TRUE(server.BecomesServing());
  ExpectServed(server, {.token = right});
  ExpectUnauthenticated(server, {});
  EXPECT_THAT(Python(server, "generate", {.token = wrong}), StartsWith("UNAUTHENTICATED"));
  folder_.Write("tokens", kOtherToken);
  EXPECT_TRUE(BecomesServed(server, {.token = wrong}));
  EXPECT_THAT(Python(server, "generate", {.token = right}), StartsWith("UNAUTHENTICATED"));
  EXPECT_THAT(server.log(), Not(HasSubstr("token-0123456789")));
}

TEST_F(Interop, EverythingAtOnce) {
  Install(authority_.Issue("server"));
  std::vector<std::string> flags = TlsFlags();
  flags.insert(flags.end(),
               {"--tls-client-ca", authority_.certificate(), "--auth-tokens", folder_.Write("tokens", kToken)});
  ServerProcess server(kModel, flags);
  ASSERT_TRUE(server.BecomesServing());
  const KeyFiles own = authority_.Issue("client");
  ExpectServed(server, {.ca = authority_.certificate(), .own = own, .token = folder_.File("tokens")});
  ExpectUnauthenticated(server, {.ca = authority_.certificate(), .own = own});
  ExpectShutOut(server, {.ca = authority_.certificate(), .token = folder_.File("tokens")});
}

}  // namespace
}  // namespace trireme::end_to_end
