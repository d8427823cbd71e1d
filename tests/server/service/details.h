// The details that a status carries, for tests.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/support/status.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace trireme::server {

template <typename Detail>
std::optional<Detail> FindDetail(const grpc::Status& status) {
  google::rpc::Status proto;
  if (!proto.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& any : proto.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

inline std::string ReasonOf(const grpc::Status& status) {
  const auto info = FindDetail<google::rpc::ErrorInfo>(status);
  return info && info->domain() == "trireme" ? info->reason() : "";
}

inline bool HasRetryInfo(const grpc::Status& status) { return FindDetail<google::rpc::RetryInfo>(status).has_value(); }

// The fields of google.rpc.BadRequest, in order.
inline std::vector<std::string> ViolatedFields(const grpc::Status& status) {
  std::vector<std::string> fields;
  const auto bad_request = FindDetail<google::rpc::BadRequest>(status);
  if (!bad_request) return fields;
  for (const auto& violation : bad_request->field_violations()) fields.push_back(violation.field());
  return fields;
}

}  // namespace trireme::server
