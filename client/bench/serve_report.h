// What `trireme bench serve` prints.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "client/bench/bench_target.h"
#include "client/bench/load.h"
#include "client/bench/load_report.h"
#include "client/bench/service_level.h"
#include "client/bench/workload.h"

namespace trireme::client {

struct ServeOptions {
  WorkloadOptions workload;
  std::string prompts_file;  // that workload.prompts are from; empty: made up
  LoadOptions load;
  std::uint32_t warmup = 1;  // requests that are sent before, and not counted
  std::optional<ServiceLevel> service_level;
};

struct ServeResult {
  BenchTarget target;
  ServeOptions options;
  LoadReport report;
  bool is_interrupted = false;
};

// For people.
std::string ShowServeResult(const ServeResult& result);

// One JSON object, as docs/benchmarks.md describes it; ends with a newline.
std::string ServeResultJson(const ServeResult& result);

}  // namespace trireme::client
