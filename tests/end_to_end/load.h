// What tests of load share: requests whose answers are known to be the same each time, and what a server holds.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <latch>
#include <vector>

#include "tests/end_to_end/server_process.h"

namespace trireme::end_to_end {

// Of exactly `max_tokens` tokens, sampled with a seed that depends on `first_token`. The prompt's ids are below 500.
v1::GenerateRequest SampledRequest(std::uint32_t first_token, std::uint32_t num_prompt_tokens,
                                   std::uint32_t max_tokens);

// The ids of the whole answer. Another end than OK is a test failure. Counts `begun` down at the first chunk, or at the
// end if there was none.
std::vector<std::uint32_t> Tokens(v1::InferenceService::Stub& stub, const v1::GenerateRequest& request,
                                  std::latch* begun = nullptr);

// Resident memory of a process, in bytes.
std::int64_t ResidentBytes(pid_t pid);

// Whether no request runs or waits and no KV block is held; waits for it for 10 s.
bool BecomesIdle(ServerProcess& server);

// Whether it serves; waits for it for a minute, as after a loss of workers.
bool BecomesServingAgain(ServerProcess& server);

}  // namespace trireme::end_to_end
