// What many requests together were like. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/bench/request_record.h"
#include "client/bench/service_level.h"
#include "client/bench/summary.h"

namespace trireme::client {

struct ErrorCount {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::uint64_t count = 0;
  std::string first_message = {};  // of the request of this code that ended first
};

// Latencies are in milliseconds, and of finished requests only: how many did not finish is told beside them.
struct LoadReport {
  // All that were sent: each is one of the four.
  std::uint64_t sent = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t interrupted = 0;

  absl::Duration elapsed;           // from the start of the run to the end of the last request
  std::uint64_t prompt_tokens = 0;  // of requests that brought a token at least
  std::uint64_t cached_tokens = 0;  // of these, found in the prefix cache, as finished requests tell
  std::uint64_t output_tokens = 0;  // all that came

  Summary ttft;
  Summary itl;  // over all gaps of all requests
  Summary tpot;
  Summary e2e;
  Summary send_lag;  // how late the client was: sent - due, of all requests

  std::optional<std::uint64_t> good;  // requests that meet the service level, if there is one
  std::vector<ErrorCount> errors;     // most frequent first

  // `count` over `elapsed`; 0 if no time has passed.
  double PerSecond(std::uint64_t count) const;
  // Of the requests that might have been good, neither cancelled nor interrupted; 0 if there are none.
  double GoodShare() const;
};

LoadReport MakeLoadReport(const std::vector<RequestRecord>& records, const std::optional<ServiceLevel>& service_level);

}  // namespace trireme::client
