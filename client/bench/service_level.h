// How fast an answer must be to count as good.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/bench/request_record.h"

namespace trireme::client {

// Upper bounds; what is absent is not looked at.
struct ServiceLevel {
  std::optional<absl::Duration> ttft = {};  // of TimeToFirstToken
  std::optional<absl::Duration> itl = {};   // of each of InterTokenGaps
  std::optional<absl::Duration> tpot = {};  // of TimePerOutputToken
  std::optional<absl::Duration> e2e = {};   // of EndToEnd
};

// Finished, and within all bounds. A latency that the answer does not have keeps every bound.
bool Meets(const RequestRecord& record, const ServiceLevel& level);

// "ttft:500,itl:50,tpot:40,e2e:10000", in milliseconds, at least one. For flags, so an error says what was expected.
absl::Status ParseFlagValue(std::string_view text, ServiceLevel* value);
// As ParseFlagValue reads it.
std::string FormatFlagValue(const ServiceLevel& value);

}  // namespace trireme::client
