#include "client/bench/load_report.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "client/bench/request_record.h"

namespace trireme::client {
namespace {

// Sent `lag` ms late; a token at each of `at`, the last one with two tokens; ended 1 ms after it. All in ms.
RequestRecord Finished(int due, int lag, std::initializer_list<int> at) {
  RequestRecord record{.due = absl::Milliseconds(due), .sent = absl::Milliseconds(due + lag)};
  for (const int time : at) record.arrivals.push_back({.at = absl::Milliseconds(time)});
  record.arrivals.back().num_tokens = 2;
  record.ended = record.arrivals.back().at + absl::Milliseconds(1);
  record.prompt_tokens = 100;
  record.cached_tokens = 16;
  record.output_tokens = static_cast<std::uint32_t>(at.size()) + 1;
  return record;
}

RequestRecord Ended(Outcome outcome, absl::Status status = absl::OkStatus()) {
  RequestRecord record = Finished(0, 0, {1000, 9000});
  record.outcome = outcome;
  record.status = std::move(status);
  return record;
}

TEST(RequestRecord, TellsItsLatencies) {
  const RequestRecord record = Finished(10, 5, {110, 130, 180});
  EXPECT_EQ(TimeToFirstToken(record), absl::Milliseconds(100));  // from due, not from sent
  EXPECT_EQ(InterTokenGaps(record), (std::vector<absl::Duration>{absl::Milliseconds(20), absl::Milliseconds(50)}));
  EXPECT_EQ(TimePerOutputToken(record), absl::Milliseconds(70) / 3);
  EXPECT_EQ(EndToEnd(record), absl::Milliseconds(171));
}

TEST(RequestRecord, LacksLatenciesOfTokensThatItLacks) {
  const RequestRecord one = Finished(10, 0, {110});
  EXPECT_EQ(TimeToFirstToken(one), absl::Milliseconds(100));
  EXPECT_TRUE(InterTokenGaps(one).empty());
  EXPECT_EQ(TimePerOutputToken(one), std::nullopt);
  const RequestRecord none;
  EXPECT_EQ(TimeToFirstToken(none), std::nullopt);
  EXPECT_EQ(TimePerOutputToken(none), std::nullopt);
  EXPECT_TRUE(InterTokenGaps(none).empty());
}

TEST(LoadReport, IsZeroWithoutRequests) {
  const LoadReport report = MakeLoadReport({}, std::nullopt);
  EXPECT_EQ(report.sent, 0u);
  EXPECT_EQ(report.elapsed, absl::ZeroDuration());
  EXPECT_EQ(report.PerSecond(7), 0);
  EXPECT_EQ(report.GoodShare(), 0);
  EXPECT_EQ(report.good, std::nullopt);
}

TEST(LoadReport, SummarizesLatenciesOfFinishedRequests) {
  const LoadReport report = MakeLoadReport(
      {Finished(0, 0, {100, 120, 140}), Finished(100, 2, {400, 500}), Ended(Outcome::kFailed, absl::AbortedError("x"))},
      std::nullopt);
  EXPECT_EQ(report.ttft.count, 2u);
  EXPECT_DOUBLE_EQ(report.ttft.mean, 200);
  EXPECT_DOUBLE_EQ(report.ttft.max, 300);
  EXPECT_EQ(report.itl.count, 3u);  // every gap counts alike
  EXPECT_DOUBLE_EQ(report.itl.p50, 20);
  EXPECT_DOUBLE_EQ(report.itl.max, 100);
  EXPECT_EQ(report.tpot.count, 2u);
  EXPECT_NEAR(report.tpot.mean, (40.0 / 3 + 50) / 2, 1e-6);
  EXPECT_DOUBLE_EQ(report.e2e.max, 401);
  EXPECT_EQ(report.send_lag.count, 3u);
  EXPECT_DOUBLE_EQ(report.send_lag.max, 2);
}

TEST(LoadReport, CountsOutcomesTokensAndTime) {
  RequestRecord refused = Ended(Outcome::kFailed, absl::ResourceExhaustedError("full"));
  refused.output_tokens = 0;
  refused.cached_tokens = 0;
  const LoadReport report = MakeLoadReport(
      {Finished(0, 0, {100, 120}), Ended(Outcome::kCancelled), Ended(Outcome::kInterrupted), refused}, std::nullopt);
  EXPECT_EQ(report.sent, 4u);
  EXPECT_EQ(report.finished, 1u);
  EXPECT_EQ(report.failed, 1u);
  EXPECT_EQ(report.cancelled, 1u);
  EXPECT_EQ(report.interrupted, 1u);
  EXPECT_EQ(report.elapsed, absl::Milliseconds(9001));
  EXPECT_EQ(report.output_tokens, 9u);    // those of cut streams too
  EXPECT_EQ(report.prompt_tokens, 300u);  // not those of a prompt that nothing came of
  EXPECT_EQ(report.cached_tokens, 48u);
  EXPECT_DOUBLE_EQ(report.PerSecond(9001), 1000);
}

TEST(LoadReport, GroupsErrorsByCode) {
  const LoadReport report = MakeLoadReport({Ended(Outcome::kFailed, absl::UnavailableError("one")),
                                            Ended(Outcome::kFailed, absl::ResourceExhaustedError("two")),
                                            Ended(Outcome::kFailed, absl::ResourceExhaustedError("three"))},
                                           std::nullopt);
  ASSERT_EQ(report.errors.size(), 2u);
  EXPECT_EQ(report.errors[0].code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(report.errors[0].count, 2u);
  EXPECT_EQ(report.errors[0].first_message, "two");
  EXPECT_EQ(report.errors[1].code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(report.errors[1].count, 1u);
}

TEST(LoadReport, CountsFailedRequestsAgainstGoodput) {
  const LoadReport report =
      MakeLoadReport({Finished(0, 0, {100, 120}), Finished(0, 0, {300, 320}), Ended(Outcome::kCancelled),
                      Ended(Outcome::kFailed, absl::AbortedError("x")), Ended(Outcome::kInterrupted)},
                     ServiceLevel{.ttft = absl::Milliseconds(200)});
  EXPECT_EQ(report.good, 1u);
  EXPECT_DOUBLE_EQ(report.GoodShare(), 1.0 / 3);
}

}  // namespace
}  // namespace trireme::client
