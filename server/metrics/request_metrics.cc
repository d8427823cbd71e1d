#include "server/metrics/request_metrics.h"

#include <string>

namespace trireme::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::Registry;

// Six a decade, from half a millisecond: a small model's token takes few milliseconds, a long request minutes.
Histogram::BucketBoundaries DurationBuckets() {
  Histogram::BucketBoundaries seconds = {0.0005, 0.00075};
  for (const double decade : {0.001, 0.01, 0.1, 1.0, 10.0, 100.0}) {
    for (const double step : {1.0, 1.5, 2.0, 3.0, 5.0, 7.5}) seconds.push_back(decade * step);
  }
  return seconds;
}

Histogram::BucketBoundaries CountBuckets() { return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}; }

Family<Counter>& CounterFamily(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Counter& AddCounter(Registry& registry, const char* name, const char* help) {
  return CounterFamily(registry, name, help).Add({});
}

Histogram& AddHistogram(Registry& registry, const char* name, const char* help,
                        const Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

}  // namespace

RequestMetrics::RequestMetrics()
    : registry_(std::make_shared<Registry>()),
      accepted_(AddCounter(*registry_, "trireme_requests_accepted_total", "Generate calls that the engine took.")),
      refused_(CounterFamily(*registry_, "trireme_requests_refused_total",
                             "Generate calls that ended before the engine took them, by status code.")),
      finished_(CounterFamily(*registry_, "trireme_requests_finished_total",
                              "Accepted requests that have ended, by outcome: a finish reason or a status code.")),
      prompt_tokens_(
          AddCounter(*registry_, "trireme_prompt_tokens_total", "Prompt tokens of requests that produced a token.")),
      generation_tokens_(AddCounter(*registry_, "trireme_generation_tokens_total", "Tokens generated.")),
      first_token_seconds_(AddHistogram(*registry_, "trireme_time_to_first_token_seconds",
                                        "From a request's arrival at the engine to its first token.",
                                        DurationBuckets())),
      inter_token_seconds_(AddHistogram(*registry_, "trireme_inter_token_latency_seconds",
                                        "Between two tokens of one request.", DurationBuckets())),
      request_seconds_(AddHistogram(*registry_, "trireme_e2e_request_latency_seconds",
                                    "From a request's arrival at the engine to its end.", DurationBuckets())),
      step_seconds_(AddHistogram(*registry_, "trireme_step_duration_seconds",
                                 "Forward pass and sampling of one step, on rank 0.", DurationBuckets())),
      step_tokens_(AddHistogram(*registry_, "trireme_step_tokens", "Tokens computed in one step.", CountBuckets())),
      step_sequences_(
          AddHistogram(*registry_, "trireme_step_sequences", "Sequences that took part in one step.", CountBuckets())) {
  // Present from the start, so that a rate over them has a beginning.
  for (const char* outcome : {"eos", "stop", "length", "aborted", "cancelled"}) {
    finished_.Add({{"outcome", outcome}});
  }
}

void RequestMetrics::OnFirstToken(absl::Duration since_submit) {
  first_token_seconds_.Observe(absl::ToDoubleSeconds(since_submit));
}

void RequestMetrics::OnInterToken(absl::Duration gap) { inter_token_seconds_.Observe(absl::ToDoubleSeconds(gap)); }

void RequestMetrics::OnStep(absl::Duration worker_time, std::uint32_t num_tokens, std::uint32_t num_sequences) {
  step_seconds_.Observe(absl::ToDoubleSeconds(worker_time));
  step_tokens_.Observe(num_tokens);
  step_sequences_.Observe(num_sequences);
}

void RequestMetrics::OnTokens(std::uint32_t prompt_tokens, std::uint32_t generated_tokens) {
  prompt_tokens_.Increment(prompt_tokens);
  generation_tokens_.Increment(generated_tokens);
}

void RequestMetrics::OnRequestEnd(const RequestSummary& summary) {
  finished_.Add({{"outcome", summary.outcome}}).Increment();
  request_seconds_.Observe(absl::ToDoubleSeconds(summary.timings.finished));
}

void RequestMetrics::OnAccepted() { accepted_.Increment(); }

void RequestMetrics::OnRefused(std::string_view code) { refused_.Add({{"code", std::string(code)}}).Increment(); }

}  // namespace trireme::server
