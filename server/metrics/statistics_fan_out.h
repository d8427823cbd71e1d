// Several keepers of metrics behind the one that the engine reports to.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/statistics.h"

namespace trireme::server {

// Thread-safe if they are.
class StatisticsFanOut final : public EngineStatistics {
 public:
  // They outlive this object.
  explicit StatisticsFanOut(std::vector<EngineStatistics*> keepers) : keepers_(std::move(keepers)) {}

  void OnAccepted() override {
    for (EngineStatistics* keeper : keepers_) keeper->OnAccepted();
  }
  void OnFirstToken(absl::Duration since_submit) override {
    for (EngineStatistics* keeper : keepers_) keeper->OnFirstToken(since_submit);
  }
  void OnInterToken(absl::Duration gap) override {
    for (EngineStatistics* keeper : keepers_) keeper->OnInterToken(gap);
  }
  void OnStep(absl::Duration worker_time, std::uint32_t num_tokens, std::uint32_t num_sequences) override {
    for (EngineStatistics* keeper : keepers_) keeper->OnStep(worker_time, num_tokens, num_sequences);
  }
  void OnTokens(std::uint32_t prompt_tokens, std::uint32_t generated_tokens) override {
    for (EngineStatistics* keeper : keepers_) keeper->OnTokens(prompt_tokens, generated_tokens);
  }
  void OnRequestEnd(const RequestSummary& summary) override {
    for (EngineStatistics* keeper : keepers_) keeper->OnRequestEnd(summary);
  }

 private:
  const std::vector<EngineStatistics*> keepers_;
};

}  // namespace trireme::server
