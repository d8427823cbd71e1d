#include "server/service/unserved_fields.h"

#include <string>

#include "base/check.h"
#include "server/service/status_details.h"

namespace trireme::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kUnserved[] = {
    "json_schema", "json_object", "regex", "grammar", "choice", "adapter_id",
};

// Whether the field at `path` is there; `path` goes through messages that are not repeated.
bool HasField(const Message& message, std::string_view path) {
  const std::size_t dot = path.find('.');
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
  CHECK(field != nullptr) << " no field " << path;
  if (field->is_repeated()) return message.GetReflection()->FieldSize(message, field) > 0;
  if (!message.GetReflection()->HasField(message, field)) return false;
  return dot == path.npos || HasField(message.GetReflection()->GetMessage(message, field), path.substr(dot + 1));
}

}  // namespace

std::span<const std::string_view> UnservedFields() { return kUnserved; }

absl::Status RefuseUnservedFields(const v1::GenerateRequest& request) {
  Violations violations;
  for (const std::string_view path : kUnserved) {
    if (HasField(request, path)) violations.Add(std::string(path), "is not served by this version");
  }
  return violations.ToStatus(absl::StatusCode::kUnimplemented, "UNSERVED_FIELD");
}

}  // namespace trireme::server
