#include "server/engine/request.h"

#include "absl/strings/cord.h"

namespace trireme::server {
namespace {

constexpr char kQueueFullPayload[] = "trireme/queue-full";

}  // namespace

absl::Status QueueFullError(std::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(std::string(message));
  status.SetPayload(kQueueFullPayload, absl::Cord());
  return status;
}

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || status.GetPayload(kQueueFullPayload).has_value();
}

}  // namespace trireme::server
