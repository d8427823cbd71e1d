#include "server/service/status_details.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/duration_message.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/engine/request.h"

namespace trireme::server {
namespace {

constexpr char kTypeUrlPrefix[] = "type.googleapis.com/";
constexpr std::size_t kMaxViolations = 10;
constexpr std::size_t kMaxDescriptionBytes = 160;
constexpr std::size_t kMaxTextBytes = 1200;

// At most `max_bytes` of `text`, without cutting a code point.
std::string Shortened(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(std::string(text.substr(0, end)), "...");
}

template <typename Detail>
std::string TypeUrl() {
  return absl::StrCat(kTypeUrlPrefix, Detail::descriptor()->full_name());
}

template <typename Detail>
void AddDetail(absl::Status& status, const Detail& detail) {
  status.SetPayload(TypeUrl<Detail>(), absl::Cord(detail.SerializeAsString()));
}

template <typename Detail>
bool HasDetail(const absl::Status& status) {
  return status.GetPayload(TypeUrl<Detail>()).has_value();
}

// absl's and gRPC's codes are the same numbers; google.rpc.Code's too.
grpc::StatusCode ToGrpcCode(absl::StatusCode code) { return static_cast<grpc::StatusCode>(code); }

std::string DefaultReason(const absl::Status& status) {
  if (IsRetryable(status) && !absl::IsUnavailable(status)) return "QUEUE_FULL";
  if (KillsWorkers(status)) return "KILLS_WORKERS";
  return absl::StatusCodeToString(status.code());
}

std::string SerializedDetails(const absl::Status& status, const std::string& text) {
  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(text);
  status.ForEachPayload([&proto](absl::string_view type_url, const absl::Cord& payload) {
    if (!absl::StartsWith(type_url, kTypeUrlPrefix)) return;
    google::protobuf::Any& detail = *proto.add_details();
    detail.set_type_url(std::string(type_url));
    detail.set_value(std::string(payload));
  });
  return proto.SerializeAsString();
}

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason) {
  google::rpc::ErrorInfo info;
  info.set_domain("trireme");
  info.set_reason(std::string(reason));
  AddDetail(status, info);
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  const auto payload = status.GetPayload(TypeUrl<google::rpc::ErrorInfo>());
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return DefaultReason(status);
  return info.reason();
}

absl::Status WithRetry(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo info;
  *info.mutable_retry_delay() = ToMessage(delay);
  AddDetail(status, info);
  return status;
}

void Violations::Add(std::string field, std::string description) {
  if (violations_.size() == kMaxViolations) {
    ++num_left_out_;
    return;
  }
  violations_.push_back({Shortened(field, kMaxDescriptionBytes), Shortened(description, kMaxDescriptionBytes)});
}

absl::Status Violations::ToStatus(absl::StatusCode code, std::string_view reason) const {
  if (violations_.empty()) return absl::OkStatus();
  google::rpc::BadRequest bad_request;
  std::string text;
  for (const Violation& violation : violations_) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", violation.field, violation.field.empty() ? "" : ": ",
                    violation.description);
    google::rpc::BadRequest::FieldViolation& proto = *bad_request.add_field_violations();
    proto.set_field(violation.field);
    proto.set_description(violation.description);
  }
  if (num_left_out_ > 0) absl::StrAppend(&text, "; and ", num_left_out_, " more");
  absl::Status status(code, text);
  AddDetail(status, bad_request);
  return WithReason(std::move(status), reason);
}

grpc::Status ToGrpcStatus(absl::Status status, absl::Duration retry_delay) {
  if (status.ok()) return grpc::Status::OK;
  if (!HasDetail<google::rpc::ErrorInfo>(status)) status = WithReason(status, DefaultReason(status));
  if (IsRetryable(status) && !HasDetail<google::rpc::RetryInfo>(status)) {
    status = WithRetry(status, retry_delay);
  }
  const std::string text = Shortened(std::string(status.message()), kMaxTextBytes);
  return grpc::Status(ToGrpcCode(status.code()), text, SerializedDetails(status, text));
}

}  // namespace trireme::server
