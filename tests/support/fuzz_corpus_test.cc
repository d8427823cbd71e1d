// Runs a fuzz target over its corpus and some thousand mutations of it, the same ones each time, so that
// every test run has a little of the fuzzer's work done. TRIREME_FUZZ_CORPUS is the folder of the target that
// this is linked with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/support/fuzz_target.h"

namespace trireme {
namespace {

constexpr int kMutationsPerSeed = 4000;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> Corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_FUZZ_CORPUS)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) seeds.push_back(ReadFile(path));
  return seeds;
}

void Feed(const std::string& input) {
  ASSERT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()), 0);
}

class Mutator {
 public:
  std::string Mutate(std::string input) {
    for (std::size_t i = 0; i < 1 + Below(4); ++i) MutateOnce(input);
    return input;
  }

 private:
  std::size_t Below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void MutateOnce(std::string& input) {
    const std::size_t at = Below(input.size());
    switch (Below(6)) {
      case 0:
        input.resize(at);
        return;
      case 1:
        input.insert(at, 1 + Below(9), static_cast<char>(random_()));
        return;
      case 2:
        input.erase(at, 1 + Below(9));
        return;
      case 3:
        OverwriteNumber(input, at);
        return;
      case 4:
        input.insert(at, input.substr(Below(input.size()), Below(40)));
        return;
      default:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << Below(8)));
    }
  }

  void OverwriteNumber(std::string& input, std::size_t at) {
    constexpr std::uint64_t kNumbers[] = {0,
                                          1,
                                          2,
                                          7,
                                          31,
                                          32,
                                          255,
                                          256,
                                          65535,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          std::uint64_t{1} << 32,
                                          (std::uint64_t{1} << 63) - 1,
                                          std::uint64_t{1} << 63,
                                          ~std::uint64_t{0}};
    const std::uint64_t number = kNumbers[Below(std::size(kNumbers))];
    const std::size_t width = std::size_t{1} << Below(4);
    if (input.size() - at >= width) std::memcpy(input.data() + at, &number, width);
  }

  std::mt19937_64 random_{42};
};

TEST(FuzzCorpus, EverySeedAndItsMutationsAreHandled) {
  const std::vector<std::string> seeds = Corpus();
  ASSERT_GE(seeds.size(), 2u) << "no corpus in " << TRIREME_FUZZ_CORPUS;
  Feed("");
  Mutator mutator;
  for (const std::string& seed : seeds) {
    Feed(seed);
    for (int i = 0; i < kMutationsPerSeed; ++i) Feed(mutator.Mutate(seed));
  }
}

}  // namespace
}  // namespace trireme
