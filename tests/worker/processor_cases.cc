#include "tests/worker/processor_cases.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace trireme::worker {
namespace {

bool UsesOnlyOurs(const nlohmann::json& params) {
  for (const auto& [key, value] : params.items()) {
    if (key != "temperature" && key != "top_k" && key != "top_p") return false;
  }
  return true;
}

}  // namespace

std::vector<ProcessorCase> ReadProcessorCases() {
  std::ifstream file(std::string(TRIREME_FIXTURES) + "/processors.json");
  const nlohmann::json fixture = nlohmann::json::parse(file);
  std::vector<ProcessorCase> cases;
  for (const nlohmann::json& c : fixture.at("cases")) {
    const nlohmann::json& params = c.at("params");
    if (!c.contains("hf") || !UsesOnlyOurs(params)) continue;
    cases.push_back({.name = c.at("logits").get<std::string>() + " " + params.dump(),
                     .logits = fixture.at("logits").at(c.at("logits").get<std::string>()),
                     .settings = {.temperature = params.value("temperature", 1.0f),
                                  .top_k = params.value("top_k", 0u),
                                  .top_p = params.value("top_p", 1.0f)},
                     .probabilities = c.at("hf")});
  }
  CHECK_GE(cases.size(), 20u);
  return cases;
}

}  // namespace trireme::worker
