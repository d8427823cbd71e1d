// What Tokenize and Detokenize answer.
#pragma once
#include "absl/status/statusor.h"
#include "server/service/limits.h"
#include "server/service/served_model.h"
#include "trireme/v1/text.pb.h"

namespace trireme::server {

// NOT_FOUND: another model. INVALID_ARGUMENT: all that is wrong at once. FAILED_PRECONDITION: no tokenizer, no
// template. May take long: not for gRPC's threads.
absl::StatusOr<v1::TokenizeResponse> TokenizeText(const ServedModel& model, const ServiceLimits& limits,
                                                  const v1::TokenizeRequest& request);

// The same errors.
absl::StatusOr<v1::DetokenizeResponse> DetokenizeIds(const ServedModel& model, const ServiceLimits& limits,
                                                     const v1::DetokenizeRequest& request);

}  // namespace trireme::server
