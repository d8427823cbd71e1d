// vLLM's names and labels for what we measure, beside our own: so that dashboards, autoscalers and the Gateway API's
// endpoint picker that were made for vLLM work unchanged. Names, buckets and labels are those of
// vllm/v1/metrics/loggers.py, the older names that dashboards still ask for included.
//
// Where the two servers differ: a request of n sequences counts as n where vLLM counts requests that run or wait, since
// there it is n requests, and as one everywhere else. request_success_total's reasons are stop (end of sequence as
// well), length (time limit as well), abort (Abort, cancelled, deadline passed) and error. What we have none of is not
// there: adapters, speculative decoding.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/engine/statistics.h"

namespace trireme::server {

struct VllmMetricsOptions {
  std::string model_name;
  std::uint32_t max_model_len = 0;    // > 0; token counts have buckets up to it
  std::uint32_t kv_block_tokens = 0;  // for cache_config_info, as is the next
  bool has_prefix_caching = true;
  std::function<Loads()> loads;  // from any thread; asked at each scrape
};

// Thread-safe.
class VllmMetrics final : public EngineStatistics, public prometheus::Collectable {
 public:
  explicit VllmMetrics(VllmMetricsOptions options);

  void OnAccepted() override {}
  void OnFirstToken(absl::Duration since_submit) override;
  void OnInterToken(absl::Duration gap) override;
  void OnStep(absl::Duration worker_time, std::uint32_t num_tokens, std::uint32_t num_sequences) override;
  void OnTokens(std::uint32_t prompt_tokens, std::uint32_t generated_tokens) override;
  void OnRequestEnd(const RequestSummary& summary) override;

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  prometheus::Counter& Success(std::string_view finished_reason);
  prometheus::MetricFamily State(const char* name, const char* help, prometheus::MetricType type, double value) const;
  prometheus::MetricFamily CacheConfig(const Loads& loads) const;

  const VllmMetricsOptions options_;
  const prometheus::Labels labels_;
  prometheus::Registry registry_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generation_tokens_;
  prometheus::Counter& cache_queries_;
  prometheus::Counter& cache_hits_;
  prometheus::Family<prometheus::Counter>& success_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& inter_token_seconds_;
  prometheus::Histogram& output_token_seconds_;
  prometheus::Histogram& e2e_seconds_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& inference_seconds_;
  prometheus::Histogram& prefill_seconds_;
  prometheus::Histogram& decode_seconds_;
  prometheus::Histogram& request_prompt_tokens_;
  prometheus::Histogram& request_generation_tokens_;
  prometheus::Histogram& params_max_tokens_;
  prometheus::Histogram& params_n_;
  prometheus::Histogram& iteration_tokens_;
};

}  // namespace trireme::server
