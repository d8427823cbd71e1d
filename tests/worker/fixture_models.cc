#include "tests/worker/fixture_models.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "gtest/gtest.h"

namespace trireme::worker {
namespace {

nlohmann::json ReadJson(const std::filesystem::path& path) {
  std::ifstream file(path);
  CHECK(file.good()) << path;
  return nlohmann::json::parse(file);
}

}  // namespace

std::filesystem::path FixtureModel(const std::string& name) {
  return std::filesystem::path(TRIREME_FIXTURES) / "hf" / name;
}

std::filesystem::path FixtureModelWithOldConfig(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("trireme_" + std::to_string(getpid()) + "_" + name);
  std::filesystem::create_directories(folder);
  for (const auto& entry : std::filesystem::directory_iterator(FixtureModel(name))) {
    const std::string file = entry.path().filename();
    if (file == "config.json") continue;
    const std::filesystem::path link = folder / (file == "config.v4.json" ? "config.json" : file);
    if (!std::filesystem::exists(link)) std::filesystem::create_symlink(entry.path(), link);
  }
  return folder;
}

std::vector<GoldenCase> ReadGoldenCases(const std::string& name) {
  std::vector<GoldenCase> cases;
  const nlohmann::json golden = ReadJson(FixtureModel(name) / "golden.json");
  for (const nlohmann::json& c : golden.at("cases")) {
    GoldenCase& out = cases.emplace_back();
    c.at("prompt").get_to(out.prompt);
    c.at("last_logits").get_to(out.last_logits);
    for (const auto& [position, logits] : c.at("logits_at").items()) logits.get_to(out.logits_at[std::stoi(position)]);
    c.at("greedy").get_to(out.greedy);
    c.at("greedy_logprobs").get_to(out.greedy_logprobs);
  }
  CHECK(!cases.empty());
  return cases;
}

std::vector<int> ValidTpDegreesOf(const std::string& name) {
  const nlohmann::json valid = ReadJson(std::filesystem::path(TRIREME_FIXTURES) / "hf" / "valid_tp.json");
  return valid.at(name).at("valid_tp");
}

}  // namespace trireme::worker
