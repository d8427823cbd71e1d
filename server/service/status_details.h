// Errors with details: an absl::Status carries google.rpc messages as payloads, and becomes a grpc::Status at the rim.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace trireme::server {

// `status` with a google.rpc.ErrorInfo of domain "trireme". `reason` is for machines: "PROMPT_TOO_LONG".
absl::Status WithReason(absl::Status status, std::string_view reason);

// `status` with a google.rpc.RetryInfo: the same call may work after `delay`.
absl::Status WithRetry(absl::Status status, absl::Duration delay);

// What is wrong with a request: collected, so that the client learns all of it at once. Beyond ten violations they are
// only counted, since a status must fit into HTTP/2 trailers of 8 KiB. Not thread-safe.
class Violations {
 public:
  // `field` is a path as in the proto: "sampling.temperature", "token_ids.ids[3]". Empty for the whole message.
  void Add(std::string field, std::string description);

  bool empty() const { return violations_.empty(); }

  // A status whose text lists all violations, with a google.rpc.BadRequest and an ErrorInfo of `reason`. OK if there
  // are none.
  absl::Status ToStatus(absl::StatusCode code, std::string_view reason) const;

 private:
  struct Violation {
    std::string field;
    std::string description;
  };
  std::vector<Violation> violations_;
  int num_left_out_ = 0;
};

// The reason with which ToGrpcStatus sends it. REQUIRES: not OK.
std::string ReasonOf(const absl::Status& status);

// For the client: code, text (of at most 1,200 bytes), and the details in `grpc-status-details-bin`. A status without a
// reason gets its code's name as one, or QUEUE_FULL, or KILLS_WORKERS; one that is IsRetryable and has no RetryInfo gets
// `retry_delay`. Payloads of `status` that are not protobuf messages are our own and stay here.
grpc::Status ToGrpcStatus(absl::Status status, absl::Duration retry_delay);

}  // namespace trireme::server
