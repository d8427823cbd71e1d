// What the client saw of one request, and the latencies that follow from it. Pure: no clocks, no calls.
//
// Times are since the run's start, by the client's monotonic clock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace trireme::client {

// A message of the stream that brought tokens.
struct TokenArrival {
  absl::Duration at;
  std::uint32_t num_tokens = 1;  // more than one if the server had merged what the client had not yet taken
};

enum class Outcome {
  kFinished,     // the stream ended with OK, after its `complete`
  kFailed,       // with `status`
  kCancelled,    // by the client, as the workload had it
  kInterrupted,  // by the end of the run: Ctrl-C
};

struct RequestRecord {
  // When it should have been sent: in an open loop its scheduled arrival, in a closed one the end of the request whose
  // place it took. Latencies count from here, so those of a client that lags behind are not too good.
  absl::Duration due = {};
  absl::Duration sent = {};
  std::vector<TokenArrival> arrivals = {};
  absl::Duration ended = {};

  Outcome outcome = Outcome::kFinished;
  absl::Status status = {};  // of kFailed
  // As the server counted them; 0 where it did not come to that.
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of the prompt's
};

// From due to the first message with tokens. None if none came: an answer that is not streamed has no first token.
std::optional<absl::Duration> TimeToFirstToken(const RequestRecord& record);

// Between each message with tokens and the one before it.
std::vector<absl::Duration> InterTokenGaps(const RequestRecord& record);

// Mean time of the tokens after those of the first message. None if there are none.
std::optional<absl::Duration> TimePerOutputToken(const RequestRecord& record);

// From due to the end of the stream.
absl::Duration EndToEnd(const RequestRecord& record);

}  // namespace trireme::client
