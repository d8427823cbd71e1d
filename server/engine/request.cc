#include "server/engine/request.h"

#include "absl/strings/cord.h"

namespace trireme::server {
namespace {

constexpr char kQueueFullPayload[] = "trireme/queue-full";
constexpr char kKillsWorkersPayload[] = "trireme/kills-workers";

}  // namespace

absl::Status QueueFullError(std::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(std::string(message));
  status.SetPayload(kQueueFullPayload, absl::Cord());
  return status;
}

absl::Status KillsWorkersError(std::string_view message) {
  absl::Status status = absl::InternalError(std::string(message));
  status.SetPayload(kKillsWorkersPayload, absl::Cord());
  return status;
}

bool KillsWorkers(const absl::Status& status) { return status.GetPayload(kKillsWorkersPayload).has_value(); }

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || status.GetPayload(kQueueFullPayload).has_value();
}

}  // namespace trireme::server
