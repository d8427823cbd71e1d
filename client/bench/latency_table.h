// How summaries of latencies are printed.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/bench/summary.h"

namespace trireme::client {

// A table in milliseconds, one line for each (name, summary in milliseconds); "-" where there are no values.
std::string ShowLatencies(const std::vector<std::pair<std::string, Summary>>& rows);

// {"count", "mean", "p50", "p90", "p95", "p99", "max"}; null where there are no values.
nlohmann::ordered_json SummaryJson(const Summary& summary);

}  // namespace trireme::client
