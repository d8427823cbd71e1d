#include "server/grpc_log.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

namespace trireme::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(OncePerSecond, LetsOnePassAndCountsTheOthers) {
  OncePerSecond limit;
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(limit.Pass(start), 0u);
  EXPECT_EQ(limit.Pass(start), std::nullopt);
  EXPECT_EQ(limit.Pass(start + absl::Milliseconds(999)), std::nullopt);
  EXPECT_EQ(limit.Pass(start + absl::Seconds(1)), 2u);
  EXPECT_EQ(limit.Pass(start + absl::Seconds(5)), 0u);
}

TEST(GrpcLog, ComesAsLinesOfOurOwn) {
  grpc_init();  // reads the verbosity
  TakeOverGrpcLog();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) gpr_log(GPR_ERROR, "handshake %d failed", i);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("WARNING trireme: gRPC error=\"handshake 0 failed\""));
  EXPECT_THAT(log, Not(HasSubstr("handshake 1 failed")));
  grpc_shutdown();
}

}  // namespace
}  // namespace trireme::server
