// How much a long prompt that joins slows the streams that run already.
//
// Some streams generate all the time. When all of them have begun there is a quiet while, then a request with a long
// prompt joins until its one token is there; and so on, quiet and joining in turn, so that what changes slowly (the
// streams' growing contexts, the machine) weighs on both alike. Gaps between tokens while a prompt joined are compared
// with all the others of the same run.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/bench/bench_target.h"
#include "client/bench/request_record.h"
#include "client/bench/summary.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::client {

struct InterferenceOptions {
  std::uint32_t streams = 8;                // at least 1
  std::uint32_t stream_input_len = 32;      // their prompts, in tokens
  std::uint32_t joining_len = 2000;         // the long prompts, in tokens
  std::uint32_t joins = 5;                  // how many there are, one after the other; at least 1
  absl::Duration quiet = absl::Seconds(3);  // before each of them, and at the end
  std::uint64_t seed = 0;
  absl::Duration timeout = absl::Minutes(10);  // of each request
};

struct InterferenceReport {
  Summary alone;         // gaps between tokens of a stream, in milliseconds
  Summary beside;        // the same, while a prompt joined
  Summary joining_ttft;  // of the long prompts, in milliseconds

  double p99_ratio() const { return alone.p99 > 0 ? beside.p99 / alone.p99 : 0; }
};

// `set_interrupt` is given a function that ends the run from any thread, with CANCELLED, and null when it may no longer
// be called. Other errors: a request's own status; InvalidArgument where the server takes less than the long prompts
// need; FailedPrecondition where a stream reached the end of its context before the last prompt had joined, no tokens
// came to compare, or the server had a prompt in its prefix cache.
absl::StatusOr<InterferenceReport> MeasureInterference(
    const InterferenceOptions& options, const v1::GetModelInfoResponse& model, v1::InferenceService::Stub* stub,
    const std::function<void(std::function<void()> interrupt)>& set_interrupt);

// For people.
std::string ShowInterference(const BenchTarget& target, const InterferenceOptions& options,
                             const InterferenceReport& report);

// One JSON object, as docs/benchmarks.md describes it; ends with a newline.
std::string InterferenceJson(const BenchTarget& target, const InterferenceOptions& options,
                             const InterferenceReport& report);

}  // namespace trireme::client
