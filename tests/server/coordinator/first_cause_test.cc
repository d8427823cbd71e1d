#include "server/coordinator/first_cause.h"

#include <gtest/gtest.h>

namespace trireme::server {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(400);
const absl::Time kStart = absl::UnixEpoch();

Cause Of(CauseKind kind, const char* what) {
  return {.kind = kind, .rank = {}, .status = absl::UnavailableError(what)};
}

std::string Get(const FirstCause& causes, absl::Time now) {
  const std::optional<Cause> cause = causes.Get(now);
  return cause ? std::string(cause->status.message()) : "";
}

TEST(FirstCause, KnowsNothingAtFirst) {
  const FirstCause causes(kPatience);
  EXPECT_EQ(causes.Get(absl::InfiniteFuture() - absl::Hours(1)), std::nullopt);
  EXPECT_EQ(causes.decided_at(), absl::InfiniteFuture());
}

TEST(FirstCause, ARootIsCertainAtOnceAndStays) {
  FirstCause causes(kPatience);
  causes.Add(Of(CauseKind::kKilled, "rank 1 was killed"), kStart);
  EXPECT_EQ(Get(causes, kStart), "rank 1 was killed");
  causes.Add(Of(CauseKind::kTimedOut, "rank 0 is late"), kStart + absl::Milliseconds(1));
  EXPECT_EQ(Get(causes, kStart + absl::Seconds(1)), "rank 1 was killed");
}

TEST(FirstCause, AWeakCauseWaitsForTheOneBehindIt) {
  FirstCause causes(kPatience);
  causes.Add(Of(CauseKind::kStreamEnded, "the stream ended"), kStart);
  EXPECT_EQ(Get(causes, kStart), "");
  EXPECT_EQ(causes.decided_at(), kStart + kPatience);
  causes.Add(Of(CauseKind::kKilled, "was killed"), kStart + absl::Milliseconds(5));
  EXPECT_EQ(Get(causes, kStart + absl::Milliseconds(5)), "was killed");
}

TEST(FirstCause, AWeakCauseIsTakenWhenPatienceEnds) {
  FirstCause causes(kPatience);
  causes.Add(Of(CauseKind::kStreamEnded, "the stream ended"), kStart);
  EXPECT_EQ(Get(causes, kStart + kPatience), "the stream ended");
}

TEST(FirstCause, TheStrongestOfTheWeakWinsWhateverTheOrder) {
  FirstCause causes(kPatience);
  causes.Add(Of(CauseKind::kPeerAborted, "rank 0: aborted by rank 1"), kStart);
  causes.Add(Of(CauseKind::kExited, "rank 1 exited with status 3"), kStart + absl::Milliseconds(1));
  causes.Add(Of(CauseKind::kStreamEnded, "rank 2 ended its stream"), kStart + absl::Milliseconds(2));
  EXPECT_EQ(Get(causes, kStart + absl::Milliseconds(399)), "");
  EXPECT_EQ(Get(causes, kStart + kPatience), "rank 1 exited with status 3") << "patience counts from the first";
}

TEST(FirstCause, OfEqualKindsTheFirstIsKept) {
  FirstCause causes(kPatience);
  causes.Add(Of(CauseKind::kExited, "rank 2"), kStart);
  causes.Add(Of(CauseKind::kExited, "rank 1"), kStart + absl::Milliseconds(1));
  EXPECT_EQ(Get(causes, kStart + kPatience), "rank 2");
}

}  // namespace
}  // namespace trireme::server
