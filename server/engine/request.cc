#include "server/engine/request.h"

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "base/check.h"

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

std::string_view OutcomeName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEos:
      return "eos";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kTimeLimit:
      return "time_limit";
    case FinishReason::kAborted:
      return "abort";
  }
  CHECK(false) << "unknown FinishReason " << static_cast<int>(reason);
  return "";
}

std::string OutcomeName(const absl::Status& status) {
  return absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
}

}  // namespace trireme::server
