#include "tests/end_to_end/load.h"

#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/sanitizers.h"

namespace trireme::end_to_end {

v1::GenerateRequest SampledRequest(std::uint32_t first_token, std::uint32_t num_prompt_tokens,
                                   std::uint32_t max_tokens) {
  v1::GenerateRequest request;
  for (std::uint32_t i = 0; i < num_prompt_tokens; ++i) {
    request.mutable_token_ids()->add_ids((first_token + 37 * i) % 500);
  }
  request.mutable_sampling()->set_temperature(0.8f);
  request.mutable_sampling()->set_seed(first_token);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

std::vector<std::uint32_t> Tokens(v1::InferenceService::Stub& stub, const v1::GenerateRequest& request,
                                  std::latch* begun) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(200) * test_support::kSlowdown));
  const auto reader = stub.Generate(&context, request);
  std::vector<std::uint32_t> ids;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (begun != nullptr) std::exchange(begun, nullptr)->count_down();
    for (const std::uint32_t id : response.chunk().token_ids()) ids.push_back(id);
  }
  if (begun != nullptr) begun->count_down();
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return ids;
}

std::int64_t ResidentBytes(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    std::int64_t kilobytes = 0;
    if (line.starts_with("VmRSS:") &&
        absl::SimpleAtoi(line.substr(6, line.size() - 6 - 3), &kilobytes)) {  // "VmRSS:   1234 kB"
      return kilobytes * 1024;
    }
  }
  ADD_FAILURE() << "no VmRSS of " << pid;
  return 0;
}

bool BecomesIdle(ServerProcess& server) {
  for (int i = 0; i < 2000; ++i) {
    const v1::GetLoadsResponse loads = server.Loads();
    if (loads.running_requests() + loads.waiting_requests() + loads.used_kv_tokens() == 0) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

bool BecomesServingAgain(ServerProcess& server) {
  for (int i = 0; i < 600; ++i) {
    if (server.ServerInfo().state() == v1::SERVER_STATE_SERVING) return true;
    absl::SleepFor(absl::Milliseconds(100));
  }
  return false;
}

}  // namespace trireme::end_to_end
