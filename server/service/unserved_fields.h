// Fields of the public API that are defined ahead of their implementation.
#pragma once
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {

// Paths of GenerateRequest's fields that this version refuses: "priority", "sampling.min_p".
std::span<const std::string_view> UnservedFields();

// UNIMPLEMENTED with a google.rpc.BadRequest that names each unserved field which `request` gives, whatever its value.
absl::Status RefuseUnservedFields(const v1::GenerateRequest& request);

}  // namespace trireme::server
