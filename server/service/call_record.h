// What the log tells of a Generate call: its id, how it ended, how long things took, in figures. No text and no token
// of prompt or output.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/request.h"

namespace trireme::server {

// Filled in while the call goes on. Not thread-safe.
struct CallRecord {
  std::string request_id = {};               // one of our own where the request names none, or none that is good
  std::optional<std::string> trace_id = {};  // see traceparent.h
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;  // of each sequence
  std::uint32_t n = 1;

  std::uint32_t cached_tokens = 0;     // of the prompt
  std::uint32_t generated_tokens = 0;  // of all sequences, those that this call was given
  std::optional<absl::Duration> first_token =
      {};  // since `begun`, as all that the log tells; so before it is tokenized

  std::optional<FinishReason> finish_reason = {};  // of the sequence that ended last
  absl::Status status = absl::OkStatus();          // as the client is told it

  absl::Duration Age() const { return absl::FromChrono(std::chrono::steady_clock::now() - begun); }
};

// At level debug: the engine has taken the request.
void LogAccepted(const CallRecord& record);

// At level info: the call is over. The text of an error goes into the log if the fault is the server's; those of the
// client's making may quote what it sent.
void LogEnd(const CallRecord& record);

}  // namespace trireme::server
