#include "tests/worker/processor_cases.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"

namespace trireme::worker {
namespace {

constexpr std::size_t kServedCases = 72;

bool IsServed(const nlohmann::json& params) {
  const std::set<std::string> unserved = {"no_repeat_ngram_size", "epsilon_cutoff", "eta_cutoff"};
  return std::none_of(params.items().begin(), params.items().end(),
                      [&](const auto& item) { return unserved.contains(item.key()); });
}

SamplingSettings SettingsFrom(const nlohmann::json& params) {
  SamplingSettings settings = {.temperature = 1};
  for (const auto& [key, value] : params.items()) {
    if (key == "temperature") {
      value.get_to(settings.temperature);
    } else if (key == "top_k") {
      value.get_to(settings.top_k);
    } else if (key == "top_p") {
      value.get_to(settings.top_p);
    } else if (key == "min_p") {
      value.get_to(settings.min_p);
    } else if (key == "typical_p") {
      value.get_to(settings.typical_p);
    } else if (key == "repetition_penalty") {
      value.get_to(settings.repetition_penalty);
    } else if (key == "presence_penalty") {
      value.get_to(settings.presence_penalty);
    } else if (key == "frequency_penalty") {
      value.get_to(settings.frequency_penalty);
    } else {
      CHECK(key == "logit_bias") << key;
      for (const auto& [id, bias] : value.items()) settings.logit_bias.push_back({std::stoi(id), bias});
    }
  }
  return settings;
}

}  // namespace

std::vector<ProcessorCase> ReadProcessorCases() {
  std::ifstream file(std::string(TRIREME_FIXTURES) + "/processors.json");
  const nlohmann::json fixture = nlohmann::json::parse(file);
  std::vector<std::int32_t> tokens = fixture.at("prompt_ids");
  const auto num_prompt_tokens = static_cast<std::uint32_t>(tokens.size());
  for (std::int32_t id : fixture.at("output_ids")) tokens.push_back(id);
  std::vector<ProcessorCase> cases;
  for (const nlohmann::json& c : fixture.at("cases")) {
    const nlohmann::json& params = c.at("params");
    if (!IsServed(params)) continue;
    cases.push_back({.name = c.at("logits").get<std::string>() + " " + params.dump(),
                     .logits = fixture.at("logits").at(c.at("logits").get<std::string>()),
                     .tokens = tokens,
                     .num_prompt_tokens = num_prompt_tokens,
                     .settings = SettingsFrom(params),
                     .probabilities = c.contains("hf") ? c.at("hf") : c.at("vllm")});
  }
  CHECK_EQ(cases.size(), kServedCases);
  return cases;
}

std::vector<float> EditedLogits(const std::vector<float>& logits, const History& history,
                                const SamplingSettings& settings) {
  std::vector<float> edited = logits;
  for (const LogitBias& bias : settings.logit_bias) edited[bias.id] += bias.bias;
  for (std::int32_t id = 0; id < std::ssize(edited); ++id) {
    const auto output = history.tokens.subspan(history.num_prompt_tokens);
    const auto in_all = std::count(history.tokens.begin(), history.tokens.end(), id);
    const auto in_output = std::count(output.begin(), output.end(), id);
    float& logit = edited[id];
    if (in_all > 0) logit = logit < 0 ? logit * settings.repetition_penalty : logit / settings.repetition_penalty;
    logit -= settings.frequency_penalty * static_cast<float>(in_output);
    if (in_output > 0) logit -= settings.presence_penalty;
    for (const std::vector<std::int32_t>& word : settings.bad_words) {
      std::vector<std::int32_t> with_id(history.tokens.begin(), history.tokens.end());
      with_id.push_back(id);
      const bool completes = with_id.size() >= word.size() && std::equal(word.rbegin(), word.rend(), with_id.rbegin());
      if (completes) logit = -std::numeric_limits<float>::infinity();
    }
    if (output.size() < settings.min_tokens &&
        std::count(settings.ending_token_ids.begin(), settings.ending_token_ids.end(), id) > 0) {
      logit = -std::numeric_limits<float>::infinity();
    }
  }
  return edited;
}

}  // namespace trireme::worker
