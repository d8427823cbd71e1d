#include "server/service/call_record.h"

#include <vector>

#include "base/logging.h"
#include "server/service/hardening.h"
#include "server/service/status_details.h"

namespace trireme::server {
namespace {

std::vector<LogField> Identity(const CallRecord& record) {
  std::vector<LogField> fields = {{"request_id", record.request_id}};
  if (record.trace_id) fields.push_back({"trace_id", *record.trace_id});
  return fields;
}

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

void AddStatus(const absl::Status& status, std::vector<LogField>& fields) {
  fields.push_back({"code", absl::StatusCodeToString(status.code())});
  if (status.ok()) return;
  fields.push_back({"reason", ReasonOf(status)});
  if (IsServersFault(status.code())) fields.push_back({"error", status.message()});
}

}  // namespace

void LogAccepted(const CallRecord& record) {
  std::vector<LogField> fields = Identity(record);
  fields.push_back({"prompt_tokens", record.prompt_tokens});
  fields.push_back({"max_tokens", record.max_tokens});
  fields.push_back({"n", record.n});
  Log(LogLevel::kDebug, "request accepted", fields);
}

void LogEnd(const CallRecord& record) {
  std::vector<LogField> fields = Identity(record);
  const bool is_finished = record.status.ok() && record.finish_reason;
  fields.push_back(
      {"outcome", is_finished ? std::string(OutcomeName(*record.finish_reason)) : OutcomeName(record.status)});
  AddStatus(record.status, fields);
  fields.push_back({"prompt_tokens", record.prompt_tokens});
  fields.push_back({"cached_tokens", record.cached_tokens});
  fields.push_back({"generated_tokens", record.generated_tokens});
  if (record.first_token) fields.push_back({"ttft_ms", Milliseconds(*record.first_token)});
  fields.push_back({"total_ms", Milliseconds(record.Age())});
  Log(LogLevel::kInfo, "request ended", fields);
}

}  // namespace trireme::server
