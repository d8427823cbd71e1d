// What the engine told of its requests and steps, in figures.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "server/engine/engine.h"

namespace trireme::server {

// Counts what metrics would.
class CountingStatistics final : public EngineStatistics {
 public:
  void OnAccepted() override { ++accepted; }
  void OnFirstToken(absl::Duration) override { ++first_tokens; }
  void OnInterToken(absl::Duration) override { ++inter_tokens; }
  void OnStep(absl::Duration, std::uint32_t num_tokens, std::uint32_t num_sequences) override {
    EXPECT_GE(num_tokens, num_sequences);
    ++steps;
  }
  void OnTokens(std::uint32_t prompt, std::uint32_t generated) override {
    prompt_tokens += prompt;
    generated_tokens += generated;
  }
  void OnRequestEnd(const RequestSummary& summary) override {
    ++ends[summary.outcome];
    last = summary;
  }

  std::uint64_t NumEnds() const {
    std::uint64_t sum = 0;
    for (const auto& [outcome, count] : ends) sum += count;
    return sum;
  }

  // Read while the engine is idle or after it has stopped.
  std::uint64_t accepted = 0;
  std::uint64_t first_tokens = 0, inter_tokens = 0, steps = 0, prompt_tokens = 0, generated_tokens = 0;
  std::map<std::string, std::uint64_t> ends;
  RequestSummary last;
};

}  // namespace trireme::server
