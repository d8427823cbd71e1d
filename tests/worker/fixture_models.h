// The checkpoints of tests/fixtures/hf and what Transformers says of them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme::worker {

struct GoldenCase {
  std::vector<std::uint32_t> prompt;
  std::vector<float> last_logits;                         // [vocabulary], of the last position
  std::map<std::uint32_t, std::vector<float>> logits_at;  // position → its first logits
  std::vector<std::uint32_t> greedy;
  std::vector<float> greedy_logprobs;
};

std::filesystem::path FixtureModel(const std::string& name);

// A folder with the same model whose config.json is config.v4.json; below the test's temporary folder.
std::filesystem::path FixtureModelWithOldConfig(const std::string& name);

std::vector<GoldenCase> ReadGoldenCases(const std::string& name);

// The degrees that must work.
std::vector<int> ValidTpDegreesOf(const std::string& name);

}  // namespace trireme::worker
