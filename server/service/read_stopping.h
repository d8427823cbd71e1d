// When an output ends: StoppingParams as a request gives them → the engine's.
#pragma once
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/request.h"
#include "server/service/limits.h"
#include "server/service/served_model.h"
#include "server/service/status_details.h"
#include "server/text/stop_strings.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {

// max_tokens and min_tokens are not bounded by the context's room yet. Notes in `violations` whatever is wrong, in the
// stop strings and bad words, too; the result is then of no use.
StoppingParams ReadStopping(const ServedModel& model, const ServiceLimits& limits, const v1::StoppingParams& params,
                            Violations& violations);

// Infinite if `params` has none. Notes in `violations` what is no positive duration.
absl::Duration ReadTimeLimit(const v1::StoppingParams& params, Violations& violations);

// Null if there are none. REQUIRES: ReadStopping found nothing wrong.
std::shared_ptr<const StopStrings> ReadStopStrings(const v1::StoppingParams& params);

// The token sequences of all bad words. INVALID_ARGUMENT names the words that have no tokens. REQUIRES: `model` has a
// tokenizer, unless there are no bad words; ReadStopping found nothing wrong.
absl::StatusOr<std::vector<std::vector<std::uint32_t>>> ReadBadWords(const ServedModel& model,
                                                                     const v1::StoppingParams& params);

}  // namespace trireme::server
