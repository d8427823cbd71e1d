#include "server/metrics/vllm_metrics.h"

#include <cstddef>
#include <utility>

#include "server/metrics/build_metrics.h"

namespace trireme::server {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Buckets = Histogram::BucketBoundaries;

constexpr double kFirstTokenSeconds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                         1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
constexpr double kInterTokenSeconds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                         0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kRequestSeconds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                      30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kSequences[] = {1, 2, 5, 10, 20};
constexpr double kIterationTokens[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

template <std::size_t kSize>
Buckets BucketsOf(const double (&bounds)[kSize]) {
  return {bounds, bounds + kSize};
}

// 1, 2, 5, 10, 20, 50, ... as far as `max`.
Buckets TokenBuckets(std::uint64_t max) {
  Buckets buckets;
  for (std::uint64_t decade = 1; decade <= max; decade *= 10) {
    for (const std::uint64_t step : {1, 2, 5}) {
      if (decade * step <= max) buckets.push_back(static_cast<double>(decade * step));
    }
  }
  return buckets;
}

const char* FinishedReason(std::string_view outcome) {
  if (outcome == "eos" || outcome == "stop") return "stop";
  if (outcome == "length" || outcome == "time_limit") return "length";
  if (outcome == "abort" || outcome == "cancelled" || outcome == "deadline_exceeded") return "abort";
  return "error";
}

double UsedShare(const Loads& loads) {
  return loads.total_kv_blocks == 0 ? 0 : static_cast<double>(loads.used_kv_blocks) / loads.total_kv_blocks;
}

std::vector<ClientMetric::Label> ToList(const prometheus::Labels& labels) {
  std::vector<ClientMetric::Label> list;
  for (const auto& [name, value] : labels) list.push_back({name, value});
  return list;
}

void Observe(Histogram& histogram, absl::Duration duration) { histogram.Observe(absl::ToDoubleSeconds(duration)); }

}  // namespace

VllmMetrics::VllmMetrics(VllmMetricsOptions options)
    : options_(std::move(options)),
      labels_({{"model_name", options_.model_name}, {"engine", "0"}}),
      prompt_tokens_(AddCounter(registry_, "vllm:prompt_tokens_total", "Number of prefill tokens processed.", labels_)),
      generation_tokens_(
          AddCounter(registry_, "vllm:generation_tokens_total", "Number of generation tokens processed.", labels_)),
      cache_queries_(AddCounter(registry_, "vllm:prefix_cache_queries_total",
                                "Prefix cache queries, in terms of number of queried tokens.", labels_)),
      cache_hits_(AddCounter(registry_, "vllm:prefix_cache_hits_total",
                             "Prefix cache hits, in terms of number of cached tokens.", labels_)),
      success_(AddCounterFamily(registry_, "vllm:request_success_total", "Count of processed requests.")),
      first_token_seconds_(AddHistogram(registry_, "vllm:time_to_first_token_seconds",
                                        "Time to first token in seconds.", BucketsOf(kFirstTokenSeconds), labels_)),
      inter_token_seconds_(AddHistogram(registry_, "vllm:inter_token_latency_seconds",
                                        "Inter-token latency in seconds.", BucketsOf(kInterTokenSeconds), labels_)),
      output_token_seconds_(AddHistogram(registry_, "vllm:time_per_output_token_seconds",
                                         "Time per output token in seconds: the older name of inter-token latency.",
                                         BucketsOf(kInterTokenSeconds), labels_)),
      e2e_seconds_(AddHistogram(registry_, "vllm:e2e_request_latency_seconds", "E2E request latency in seconds.",
                                BucketsOf(kRequestSeconds), labels_)),
      queue_seconds_(AddHistogram(registry_, "vllm:request_queue_time_seconds", "Time spent in WAITING phase.",
                                  BucketsOf(kRequestSeconds), labels_)),
      inference_seconds_(AddHistogram(registry_, "vllm:request_inference_time_seconds", "Time spent in RUNNING phase.",
                                      BucketsOf(kRequestSeconds), labels_)),
      prefill_seconds_(AddHistogram(registry_, "vllm:request_prefill_time_seconds", "Time spent in PREFILL phase.",
                                    BucketsOf(kRequestSeconds), labels_)),
      decode_seconds_(AddHistogram(registry_, "vllm:request_decode_time_seconds", "Time spent in DECODE phase.",
                                   BucketsOf(kRequestSeconds), labels_)),
      request_prompt_tokens_(AddHistogram(registry_, "vllm:request_prompt_tokens",
                                          "Number of prefill tokens processed.", TokenBuckets(options_.max_model_len),
                                          labels_)),
      request_generation_tokens_(AddHistogram(registry_, "vllm:request_generation_tokens",
                                              "Number of generation tokens processed.",
                                              TokenBuckets(options_.max_model_len), labels_)),
      params_max_tokens_(AddHistogram(registry_, "vllm:request_params_max_tokens", "The max_tokens request parameter.",
                                      TokenBuckets(options_.max_model_len), labels_)),
      params_n_(
          AddHistogram(registry_, "vllm:request_params_n", "The n request parameter.", BucketsOf(kSequences), labels_)),
      iteration_tokens_(AddHistogram(registry_, "vllm:iteration_tokens_total", "Number of tokens per engine step.",
                                     BucketsOf(kIterationTokens), labels_)) {
  for (const char* reason : {"stop", "length", "abort", "error"}) Success(reason);
}

prometheus::Counter& VllmMetrics::Success(std::string_view finished_reason) {
  prometheus::Labels labels = labels_;
  labels["finished_reason"] = std::string(finished_reason);
  return success_.Add(labels);
}

void VllmMetrics::OnFirstToken(absl::Duration since_submit) { Observe(first_token_seconds_, since_submit); }

void VllmMetrics::OnInterToken(absl::Duration gap) {
  Observe(inter_token_seconds_, gap);
  Observe(output_token_seconds_, gap);
}

void VllmMetrics::OnStep(absl::Duration, std::uint32_t num_tokens, std::uint32_t) {
  iteration_tokens_.Observe(num_tokens);
}

void VllmMetrics::OnTokens(std::uint32_t prompt_tokens, std::uint32_t generated_tokens) {
  prompt_tokens_.Increment(prompt_tokens);
  generation_tokens_.Increment(generated_tokens);
}

void VllmMetrics::OnRequestEnd(const RequestSummary& summary) {
  const RequestTimings& timings = summary.timings;
  Success(FinishedReason(summary.outcome)).Increment();
  Observe(e2e_seconds_, timings.finished);
  request_prompt_tokens_.Observe(summary.prompt_tokens);
  request_generation_tokens_.Observe(summary.generated_tokens);
  params_max_tokens_.Observe(summary.max_tokens);
  params_n_.Observe(summary.n);
  if (!timings.first_scheduled) return;
  if (options_.has_prefix_caching) {
    cache_queries_.Increment(summary.prompt_tokens);
    cache_hits_.Increment(summary.cached_tokens);
  }
  Observe(queue_seconds_, *timings.first_scheduled);
  Observe(inference_seconds_, timings.finished - *timings.first_scheduled);
  if (!timings.first_token) return;
  Observe(prefill_seconds_, *timings.first_token - *timings.first_scheduled);
  Observe(decode_seconds_, timings.finished - *timings.first_token);
}

MetricFamily VllmMetrics::State(const char* name, const char* help, MetricType type, double value) const {
  ClientMetric metric;
  metric.label = ToList(labels_);
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {name, help, type, {metric}};
}

MetricFamily VllmMetrics::CacheConfig(const Loads& loads) const {
  ClientMetric metric;
  metric.label = ToList(labels_);
  metric.label.push_back({"block_size", std::to_string(options_.kv_block_tokens)});
  metric.label.push_back({"num_gpu_blocks", std::to_string(loads.total_kv_blocks)});
  metric.label.push_back({"enable_prefix_caching", options_.has_prefix_caching ? "True" : "False"});
  metric.gauge.value = 1;
  return {"vllm:cache_config_info", "Information of the cache's configuration.", MetricType::Gauge, {metric}};
}

std::vector<MetricFamily> VllmMetrics::Collect() const {
  std::vector<MetricFamily> families = registry_.Collect();
  const Loads loads = options_.loads();
  const auto add = [&](const char* name, const char* help, MetricType type, double value) {
    families.push_back(State(name, help, type, value));
  };
  add("vllm:num_requests_running", "Number of requests in model execution batches.", MetricType::Gauge,
      loads.running_sequences);
  add("vllm:num_requests_waiting", "Number of requests waiting to be processed.", MetricType::Gauge,
      loads.waiting_sequences);
  add("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", MetricType::Gauge, UsedShare(loads));
  add("vllm:gpu_cache_usage_perc", "The older name of kv_cache_usage_perc.", MetricType::Gauge, UsedShare(loads));
  add("vllm:num_preemptions_total", "Cumulative number of preemptions from the engine.", MetricType::Counter,
      static_cast<double>(loads.preemptions));
  families.push_back(CacheConfig(loads));
  return families;
}

}  // namespace trireme::server
