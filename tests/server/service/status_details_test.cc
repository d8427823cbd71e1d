#include "server/service/status_details.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/engine/request.h"
#include "tests/server/service/details.h"

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::Duration kDelay = absl::Milliseconds(1500);

TEST(ToGrpcStatus, KeepsOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus(), kDelay).ok()); }

TEST(ToGrpcStatus, KeepsEveryCodeAndText) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "why"), kDelay);
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(status.error_message(), "why");
  }
}

TEST(ToGrpcStatus, NamesTheCodeAsReasonWhereNoneWasGiven) {
  EXPECT_EQ(ReasonOf(ToGrpcStatus(absl::AbortedError("x"), kDelay)), "ABORTED");
  EXPECT_EQ(ReasonOf(ToGrpcStatus(KillsWorkersError("x"), kDelay)), "KILLS_WORKERS");
  EXPECT_EQ(ReasonOf(ToGrpcStatus(WithReason(absl::AbortedError("x"), "RANK_LOST"), kDelay)), "RANK_LOST");
}

TEST(ReasonOf, IsWhatTheClientGets) {
  const absl::Status statuses[] = {absl::AbortedError("x"), KillsWorkersError("x"), QueueFullError("x"),
                                   WithReason(absl::ResourceExhaustedError("x"), "SLOW_READER"),
                                   absl::ResourceExhaustedError("x")};
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ReasonOf(status), ReasonOf(ToGrpcStatus(status, kDelay))) << status;
  }
  EXPECT_EQ(ReasonOf(statuses[3]), "SLOW_READER");
}

TEST(ToGrpcStatus, TellsWhenToRetryWhatIsUnavailable) {
  const auto retry = FindDetail<google::rpc::RetryInfo>(ToGrpcStatus(absl::UnavailableError("x"), kDelay));
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->retry_delay().seconds(), 1);
  EXPECT_EQ(retry->retry_delay().nanos(), 500'000'000);
  EXPECT_FALSE(HasRetryInfo(ToGrpcStatus(absl::AbortedError("x"), kDelay)));
}

TEST(ToGrpcStatus, TellsAFullQueueFromARequestThatNeverFits) {
  const grpc::Status full = ToGrpcStatus(QueueFullError("8 sequences wait"), kDelay);
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(full), "QUEUE_FULL");
  EXPECT_TRUE(HasRetryInfo(full));
  const grpc::Status too_big = ToGrpcStatus(absl::ResourceExhaustedError("too big"), kDelay);
  EXPECT_EQ(ReasonOf(too_big), "RESOURCE_EXHAUSTED");
  EXPECT_FALSE(HasRetryInfo(too_big));
}

TEST(ToGrpcStatus, KeepsMarksOfOurOwnToItself) {
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(ToGrpcStatus(QueueFullError("full"), kDelay).error_details()));
  for (const google::protobuf::Any& detail : details.details()) {
    EXPECT_THAT(detail.type_url(), testing::StartsWith("type.googleapis.com/google.rpc."));
  }
}

TEST(ToGrpcStatus, KeepsAnotherDelayThatWasGiven) {
  const absl::Status status = WithRetry(absl::UnavailableError("x"), absl::Seconds(7));
  EXPECT_EQ(FindDetail<google::rpc::RetryInfo>(ToGrpcStatus(status, kDelay))->retry_delay().seconds(), 7);
}

TEST(ToGrpcStatus, ShortensTextWithoutCuttingACodePoint) {
  std::string text = "x";
  while (text.size() < 5000) text += "é";
  const std::string shown = ToGrpcStatus(absl::InternalError(text), kDelay).error_message();
  EXPECT_LT(shown.size(), 1300u);
  EXPECT_EQ((shown.size() - 1 - 3) % 2, 0u);  // whole code points between "x" and "..."
}

TEST(Violations, AreOkWhenThereAreNone) {
  EXPECT_TRUE(Violations().ToStatus(absl::StatusCode::kInvalidArgument, "X").ok());
}

TEST(Violations, TellEachFieldInTextAndDetails) {
  Violations violations;
  violations.Add("sampling.top_p", "is 2");
  violations.Add("", "all wrong");
  const absl::Status status = violations.ToStatus(absl::StatusCode::kUnimplemented, "BAD");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "sampling.top_p: is 2; all wrong");
  const grpc::Status shown = ToGrpcStatus(status, kDelay);
  EXPECT_THAT(ViolatedFields(shown), ElementsAre("sampling.top_p", ""));
  EXPECT_EQ(ReasonOf(shown), "BAD");
}

TEST(Violations, FitIntoTrailersHoweverManyThereAre) {
  Violations violations;
  for (int i = 0; i < 1000; ++i) violations.Add(absl::StrCat("f", i, std::string(300, 'x')), std::string(5000, 'y'));
  const grpc::Status status = ToGrpcStatus(violations.ToStatus(absl::StatusCode::kInvalidArgument, "BAD"), kDelay);
  EXPECT_THAT(ViolatedFields(status), SizeIs(10));
  EXPECT_LT(status.error_message().size() + status.error_details().size() * 4 / 3, 8000u);
}

TEST(Violations, CountWhatTheyLeaveOut) {
  Violations violations;
  for (int i = 0; i < 13; ++i) violations.Add("f", "x");
  EXPECT_THAT(std::string(violations.ToStatus(absl::StatusCode::kInvalidArgument, "BAD").message()),
              HasSubstr("and 3 more"));
}

}  // namespace
}  // namespace trireme::server
