#include "tests/server/metrics/readme_metrics.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

namespace trireme::server {
namespace {

std::string Readme() {
  std::ifstream file(TRIREME_FIXTURES "/../../README.md");
  EXPECT_TRUE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// All that match, by their first group.
std::set<std::string> Matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

}  // namespace

std::map<std::string, std::string> MetricsInReadme() {
  const std::regex row(R"(\| (`trireme_[^|]*) \| (counter|gauge|histogram) \|.*)");
  const std::regex name("`(trireme_[a-z0-9_]+)[`{]");
  std::map<std::string, std::string> metrics;
  std::istringstream readme(Readme());
  for (std::string line; std::getline(readme, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    for (const std::string& metric : Matches(cells[1], name)) {
      EXPECT_TRUE(metrics.emplace(metric, cells[2]).second) << metric << " twice";
    }
  }
  return metrics;
}

std::set<std::string> VllmNamesInReadme() { return Matches(Readme(), std::regex("`(vllm:[a-z0-9_]+)`")); }

}  // namespace trireme::server
