// How tokens are chosen: SamplingParams as a request gives them → the engine's.
#pragma once
#include "server/engine/request.h"
#include "server/service/limits.h"
#include "server/service/served_model.h"
#include "server/service/status_details.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {

// Complete but for bad_words. A seed is chosen if none was given. Notes in `violations` whatever is out of range; the
// result is then of no use.
SamplingParams ReadSampling(const ServedModel& model, const ServiceLimits& limits, const v1::GenerateRequest& request,
                            Violations& violations);

// A random number of the operating system's.
std::uint64_t RandomNumber();

}  // namespace trireme::server
