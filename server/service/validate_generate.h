// A GenerateRequest, looked at once and turned into what the engine takes. Nothing behind this needs to look again.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/request.h"
#include "server/service/continuation_output.h"
#include "server/service/limits.h"
#include "server/service/served_model.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {

struct ValidatedGenerate {
  Request request;  // complete but for the deadline; a seed is chosen if none was given
  OutputPlan output;
};

// For a request that names none. Another one each time.
std::string MakeRequestId();

// Tokenizes and renders, which may take long: not for gRPC's threads. REQUIRES: request.request_id is not empty.
//
// NOT_FOUND: another model. INVALID_ARGUMENT: all that is wrong at once, or a prompt longer than the context.
// UNIMPLEMENTED: fields of UnservedFields(). FAILED_PRECONDITION: text, a chat, or fields that are about text without
// tokenizer or template.
absl::StatusOr<ValidatedGenerate> ValidateGenerate(const ServedModel& model, const ServiceLimits& limits,
                                                   const v1::GenerateRequest& request);

}  // namespace trireme::server
