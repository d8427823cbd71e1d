#include "server/metrics/request_metrics.h"

#include <string>

#include "server/metrics/build_metrics.h"

namespace trireme::server {

using prometheus::Registry;

RequestMetrics::RequestMetrics()
    : registry_(std::make_shared<Registry>()),
      accepted_(AddCounter(*registry_, "trireme_requests_accepted_total", "Generate calls that the engine took.")),
      refused_(AddCounterFamily(*registry_, "trireme_requests_refused_total",
                                "Generate calls that ended before the engine took them, by status code; and calls of "
                                "any method without a good token (unauthenticated).")),
      finished_(AddCounterFamily(
          *registry_, "trireme_requests_finished_total",
          "Accepted requests that have ended, by outcome: a finish reason or an error's status code.")),
      failures_(AddCounterFamily(*registry_, "trireme_request_failures_total",
                                 "Generate calls that ended with an error, refused ones included, by status code and "
                                 "reason as the client gets them.")),
      prompt_tokens_(
          AddCounter(*registry_, "trireme_prompt_tokens_total", "Prompt tokens of requests that produced a token.")),
      generation_tokens_(AddCounter(*registry_, "trireme_generation_tokens_total", "Tokens generated.")),
      cache_queried_tokens_(AddCounter(*registry_, "trireme_prefix_cache_queried_tokens_total",
                                       "Prompt tokens of ended requests that took part in a step.")),
      cache_hit_tokens_(
          AddCounter(*registry_, "trireme_prefix_cache_hit_tokens_total", "Of these, that the prefix cache held.")),
      first_token_seconds_(AddHistogram(*registry_, "trireme_time_to_first_token_seconds",
                                        "From a request's arrival at the engine to its first token.",
                                        DurationBuckets())),
      inter_token_seconds_(AddHistogram(*registry_, "trireme_inter_token_latency_seconds",
                                        "Between two tokens of one sequence.", DurationBuckets())),
      request_seconds_(AddHistogram(*registry_, "trireme_e2e_request_latency_seconds",
                                    "From a request's arrival at the engine to its end.", DurationBuckets())),
      queue_seconds_(AddHistogram(*registry_, "trireme_request_queue_time_seconds",
                                  "From a request's arrival at the engine to its first step, or to its end if it got "
                                  "none.",
                                  DurationBuckets())),
      prefill_seconds_(AddHistogram(*registry_, "trireme_request_prefill_time_seconds",
                                    "From a request's first step to its first token.", DurationBuckets())),
      decode_seconds_(AddHistogram(*registry_, "trireme_request_decode_time_seconds",
                                   "From a request's first token to its end.", DurationBuckets())),
      request_prompt_tokens_(AddHistogram(*registry_, "trireme_request_prompt_tokens",
                                          "Tokens in a request's prompt, when it ends.", CountBuckets())),
      request_generation_tokens_(AddHistogram(*registry_, "trireme_request_generation_tokens",
                                              "Tokens generated for a request, over all its sequences, when it ends.",
                                              CountBuckets())),
      step_seconds_(AddHistogram(*registry_, "trireme_step_duration_seconds",
                                 "Forward pass and sampling of one step, on rank 0.", DurationBuckets())),
      step_tokens_(AddHistogram(*registry_, "trireme_step_tokens", "Tokens computed in one step.", CountBuckets())),
      step_sequences_(
          AddHistogram(*registry_, "trireme_step_sequences", "Sequences that took part in one step.", CountBuckets())) {
  AddKnownLabels();
}

// Present from the start, so that a rate over them has a beginning.
void RequestMetrics::AddKnownLabels() {
  for (const char* outcome :
       {"eos", "stop", "length", "time_limit", "abort", "cancelled", "deadline_exceeded", "resource_exhausted"}) {
    finished_.Add({{"outcome", outcome}});
  }
  for (const char* code : {"invalid_argument", "resource_exhausted", "unavailable", "unauthenticated"}) {
    refused_.Add({{"code", code}});
  }
  failures_.Add({{"code", "invalid_argument"}, {"reason", "INVALID_REQUEST"}});
  failures_.Add({{"code", "resource_exhausted"}, {"reason", "QUEUE_FULL"}});
  failures_.Add({{"code", "unavailable"}, {"reason", "UNAVAILABLE"}});
  failures_.Add({{"code", "internal"}, {"reason", "KILLS_WORKERS"}});
}

void RequestMetrics::OnAccepted() { accepted_.Increment(); }

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
  const RequestTimings& timings = summary.timings;
  finished_.Add({{"outcome", summary.outcome}}).Increment();
  request_seconds_.Observe(absl::ToDoubleSeconds(timings.finished));
  request_prompt_tokens_.Observe(summary.prompt_tokens);
  request_generation_tokens_.Observe(summary.generated_tokens);
  queue_seconds_.Observe(absl::ToDoubleSeconds(timings.first_scheduled.value_or(timings.finished)));
  if (!timings.first_scheduled) return;
  cache_queried_tokens_.Increment(summary.prompt_tokens);
  cache_hit_tokens_.Increment(summary.cached_tokens);
  if (!timings.first_token) return;
  prefill_seconds_.Observe(absl::ToDoubleSeconds(*timings.first_token - *timings.first_scheduled));
  decode_seconds_.Observe(absl::ToDoubleSeconds(timings.finished - *timings.first_token));
}

void RequestMetrics::OnRefused(std::string_view code) { refused_.Add({{"code", std::string(code)}}).Increment(); }

void RequestMetrics::OnFailure(std::string_view code, std::string_view reason) {
  failures_.Add({{"code", std::string(code)}, {"reason", std::string(reason)}}).Increment();
}

}  // namespace trireme::server
