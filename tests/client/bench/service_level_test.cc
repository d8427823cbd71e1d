#include "client/bench/service_level.h"

#include <gtest/gtest.h>

namespace trireme::client {
namespace {

// Due at 10 ms, tokens at 110, 130 and 180 ms, ended at 200 ms.
RequestRecord SomeRecord() {
  RequestRecord record;
  record.due = absl::Milliseconds(10);
  for (const int at : {110, 130, 180}) record.arrivals.push_back({.at = absl::Milliseconds(at)});
  record.ended = absl::Milliseconds(200);
  return record;
}

ServiceLevel Level(std::string_view text) {
  ServiceLevel level;
  const absl::Status status = ParseFlagValue(text, &level);
  EXPECT_TRUE(status.ok()) << status;
  return level;
}

TEST(ServiceLevel, IsReadAsItIsShown) {
  for (const char* text : {"ttft:500", "itl:0.5", "ttft:1,itl:2,tpot:3,e2e:4"}) {
    EXPECT_EQ(FormatFlagValue(Level(text)), text);
  }
}

TEST(ServiceLevel, RefusesWhatIsNone) {
  for (const char* text : {"", "ttft", "ttft:", "ttft:x", "ttft:0", "ttft:-1", "tft:5", "ttft:5,", "ttft:5,ttft:6",
                           "ttft:5 itl:6", ":5"}) {
    ServiceLevel level;
    EXPECT_EQ(ParseFlagValue(text, &level).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ServiceLevel, IsMetUpToTheBoundItself) {
  EXPECT_TRUE(Meets(SomeRecord(), Level("ttft:100,itl:50,tpot:35,e2e:190")));
  EXPECT_FALSE(Meets(SomeRecord(), Level("ttft:99")));
  EXPECT_FALSE(Meets(SomeRecord(), Level("itl:49")));  // one gap is enough
  EXPECT_FALSE(Meets(SomeRecord(), Level("tpot:34")));
  EXPECT_FALSE(Meets(SomeRecord(), Level("e2e:189")));
}

TEST(ServiceLevel, IsMetByFinishedRequestsOnly) {
  for (const Outcome outcome : {Outcome::kFailed, Outcome::kCancelled, Outcome::kInterrupted}) {
    RequestRecord record = SomeRecord();
    record.outcome = outcome;
    EXPECT_FALSE(Meets(record, Level("ttft:100000")));
  }
}

TEST(ServiceLevel, AsksNothingOfALatencyThatTheAnswerLacks) {
  RequestRecord record = SomeRecord();
  record.arrivals.clear();  // not streamed
  EXPECT_TRUE(Meets(record, Level("ttft:1,itl:1,tpot:1")));
  EXPECT_FALSE(Meets(record, Level("ttft:1,e2e:1")));
}

}  // namespace
}  // namespace trireme::client
