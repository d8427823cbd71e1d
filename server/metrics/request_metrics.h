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

// Names follow Prometheus' conventions, with the prefix `trireme_`. Whenever no call is just beginning or ending:
//   requests accepted - requests finished (over all outcomes) = running + waiting
//   count of time to first token = requests that produced a token
//   count of inter-token latency = generation tokens - sequences that produced a token
//   count of end-to-end latency = requests finished
// Thread-safe.
class RequestMetrics final : public EngineStatistics, public ServiceStatistics {
 public:
  RequestMetrics();

  void OnAccepted() override;
  void OnFirstToken(absl::Duration since_submit) override;
  void OnInterToken(absl::Duration gap) override;
  void OnStep(absl::Duration worker_time, std::uint32_t num_tokens, std::uint32_t num_sequences) override;
  void OnTokens(std::uint32_t prompt_tokens, std::uint32_t generated_tokens) override;
  void OnRequestEnd(const RequestSummary& summary) override;

  void OnRefused(std::string_view code) override;
  void OnFailure(std::string_view code, std::string_view reason) override;

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  void AddKnownLabels();

  std::shared_ptr<prometheus::Registry> registry_;
  // Metrics live as long as the registry. What has labels is looked up at each use: once a request.
  prometheus::Counter& accepted_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Family<prometheus::Counter>& finished_;
  prometheus::Family<prometheus::Counter>& failures_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generation_tokens_;
  prometheus::Counter& cache_queried_tokens_;
  prometheus::Counter& cache_hit_tokens_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& inter_token_seconds_;
  prometheus::Histogram& request_seconds_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& prefill_seconds_;
  prometheus::Histogram& decode_seconds_;
  prometheus::Histogram& request_prompt_tokens_;
  prometheus::Histogram& request_generation_tokens_;
  prometheus::Histogram& step_seconds_;
  prometheus::Histogram& step_tokens_;
  prometheus::Histogram& step_sequences_;
};

}  // namespace trireme::server
