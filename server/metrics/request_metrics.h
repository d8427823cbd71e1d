// Counters and histograms of requests and steps, fed by the engine and the service.
#pragma once
#include <memory>
#include <string_view>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "absl/time/time.h"
#include "server/engine/statistics.h"

namespace trireme::server {

// Names follow Prometheus' conventions, with the prefix `trireme_`. Between scrapes these hold:
//   requests accepted - requests finished (over all outcomes) = running + waiting
//   count of time to first token = requests that produced a token
//   count of inter-token latency = generation tokens - count of time to first token
// Thread-safe.
class RequestMetrics final : public EngineStatistics, public ServiceStatistics {
 public:
  RequestMetrics();

  void OnFirstToken(absl::Duration since_submit) override;
  void OnInterToken(absl::Duration gap) override;
  void OnStep(absl::Duration worker_time, std::uint32_t num_tokens, std::uint32_t num_sequences) override;
  void OnTokens(std::uint32_t prompt_tokens, std::uint32_t generated_tokens) override;
  void OnRequestEnd(const RequestSummary& summary) override;

  void OnAccepted() override;
  void OnRefused(std::string_view code) override;

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  // Metrics live as long as the registry. What has labels is looked up at each use: once a request.
  prometheus::Counter& accepted_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Family<prometheus::Counter>& finished_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generation_tokens_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& inter_token_seconds_;
  prometheus::Histogram& request_seconds_;
  prometheus::Histogram& step_seconds_;
  prometheus::Histogram& step_tokens_;
  prometheus::Histogram& step_sequences_;
};

}  // namespace trireme::server
