#include "tests/server/metrics/readme_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/str_split.h"

namespace trireme::server {
namespace {

std::string Readme() {
  std::ifstream file(TRIREME_FIXTURES "/../../README.md");
  EXPECT_TRUE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What stands in back quotes and begins with `prefix`, without labels.
std::set<std::string> Names(const std::string& text, const std::string& prefix) {
  std::set<std::string> names;
  const std::string quoted = "`" + prefix;
  for (std::size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1)) {
    const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_:", at + 1);
    if (end != std::string::npos && (text[end] == '`' || text[end] == '{')) {
      names.insert(text.substr(at + 1, end - at - 1));
    }
  }
  return names;
}

}  // namespace

std::map<std::string, std::string> MetricsInReadme() {
  std::map<std::string, std::string> metrics;
  std::istringstream readme(Readme());
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with("| `trireme_")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    EXPECT_GE(cells.size(), 3u) << line;
    EXPECT_THAT(cells[1], ::testing::AnyOf("counter", "gauge", "histogram")) << line;
    for (const std::string& metric : Names(cells[0], "trireme_")) {
      EXPECT_TRUE(metrics.emplace(metric, cells[1]).second) << metric << " twice";
    }
  }
  return metrics;
}

std::set<std::string> VllmNamesInReadme() { return Names(Readme(), "vllm:"); }

}  // namespace trireme::server
