// What README.md says of metrics.
#pragma once
#include <map>
#include <set>
#include <string>

namespace trireme::server {

// Names and types in its table.
std::map<std::string, std::string> MetricsInReadme();

// vLLM's names, wherever they stand.
std::set<std::string> VllmNamesInReadme();

}  // namespace trireme::server
