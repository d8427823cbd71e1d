// An engine over a fake worker group.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "tests/server/engine/recorder.h"
#include "tests/support/fake_worker_group.h"

namespace trireme::server {

// Enough for a few short sequences.
inline EngineOptions SmallEngine(std::uint32_t max_steps_in_flight = 1) {
  return {.limits = {.max_num_seqs = 4, .max_num_batched_tokens = 16, .max_logit_rows = 7, .kv_block_tokens = 4},
          .max_model_len = 64,
          .max_steps_in_flight = max_steps_in_flight};
}

// The engine's thread ends before the group's objects do.
class EngineOverFake {
 public:
  explicit EngineOverFake(const EngineOptions& options, std::vector<std::uint32_t> num_kv_blocks = {64},
                          EngineStatistics* statistics = nullptr, absl::Duration step_time = absl::ZeroDuration())
      : group({.limits = options.limits,
               .num_kv_blocks = std::move(num_kv_blocks),
               .max_steps_in_flight = options.max_steps_in_flight,
               .step_time = step_time}),
        engine(options, statistics) {
    group.SetListener(&engine);
    engine.Start(&group);
  }
  ~EngineOverFake() {
    engine.Stop();
    group.Shutdown();
  }

  // Submits and expects OK.
  std::shared_ptr<Recorder> Submit(Request request) {
    auto recorder = std::make_shared<Recorder>(request.n);
    EXPECT_EQ(engine.Submit(std::move(request), recorder), absl::OkStatus());
    return recorder;
  }

  FakeWorkerGroup group;
  Engine engine;
};

inline Request MakeRequest(std::string id, std::vector<std::uint32_t> prompt, std::uint32_t max_tokens,
                           std::uint64_t seed = 0) {
  Request request;
  request.id = std::move(id);
  request.prompt = std::move(prompt);
  request.sampling.seed = seed;
  request.stopping.max_tokens = max_tokens;
  return request;
}

inline std::vector<std::uint32_t> Prompt(std::uint32_t length) {
  std::vector<std::uint32_t> prompt(length);
  std::iota(prompt.begin(), prompt.end(), 100);
  return prompt;
}

inline std::vector<std::uint32_t> FirstOf(const std::vector<std::uint32_t>& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

// What sequence `index` of a request of the fake model says, were it alone.
inline std::vector<std::uint32_t> Solo(const Request& request, std::uint32_t index = 0) {
  return FakeContinuation(request.prompt, request.sampling.seed, FakeGroupOptions{}.vocab_size,
                          request.stopping.max_tokens, index);
}

// The parameter is the number of steps in flight.
class EngineTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  EngineOptions options() const { return SmallEngine(GetParam()); }
};

}  // namespace trireme::server
