#include "server/exposure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::server {
namespace {

using ::testing::HasSubstr;

std::string WarningFor(const std::string& listen, const PortSecurity& security = {}) {
  ServerOptions options;
  options.listen = listen;
  options.security = security;
  return std::string(ExposureWarning(options).value_or("none"));
}

TEST(Exposure, IsNoneOnLoopback) {
  for (const char* listen : {"127.0.0.1:8700", "127.1.2.3:0", "localhost:8700", "[::1]:8700"}) {
    EXPECT_EQ(WarningFor(listen), "none") << listen;
  }
}

TEST(Exposure, IsWarnedOfWhereAnybodyMayCall) {
  for (const char* listen : {"0.0.0.0:8700", "[::]:8700", "10.0.0.1:8700", "localhost.example:8700", "*:8700"}) {
    EXPECT_THAT(WarningFor(listen), HasSubstr("whoever reaches this address")) << listen;
  }
  EXPECT_THAT(WarningFor("0.0.0.0:1", {.tls_certificate = "c", .tls_key = "k"}), HasSubstr("whoever reaches"));
}

TEST(Exposure, IsWarnedOfWhereTokensTravelInTheClear) {
  EXPECT_THAT(WarningFor("0.0.0.0:1", {.auth_tokens = "t"}), HasSubstr("in the clear"));
}

TEST(Exposure, IsNoneWhereTheServerAsksForWhatItShould) {
  EXPECT_EQ(WarningFor("0.0.0.0:1", {.tls_certificate = "c", .tls_key = "k", .auth_tokens = "t"}), "none");
  EXPECT_EQ(WarningFor("0.0.0.0:1", {.tls_certificate = "c", .tls_key = "k", .tls_client_ca = "a"}), "none");
}

}  // namespace
}  // namespace trireme::server
