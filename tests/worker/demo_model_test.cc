// The demo model (SmolLM2-135M-Instruct, GGUF Q4_1) against Transformers on the dequantized weights, at every
// degree that fits it, and the bytes that a rank reads. Skipped where the model has not been fetched.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "sharding/describe.h"
#include "sharding/model.h"
#include "tests/support/rank_harness.h"
#include "tests/worker/loaded_ranks.h"

namespace trireme::worker {
namespace {

std::filesystem::path DemoModel() {
  if (const char* path = std::getenv("TRIREME_DEMO_MODEL")) return path;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) / ".cache/trireme/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class DemoModelTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(DemoModel())) {
      GTEST_SKIP() << "no demo model at " << DemoModel() << ": run deploy/quickstart.sh, or set TRIREME_DEMO_MODEL";
    }
  }
};

ExecutorOptions Options() {
  return {.model_path = DemoModel(),
          .plan_rules = {},
          .max_model_len = 512,
          .max_num_seqs = 8,
          .max_num_batched_tokens = 512,
          .max_logit_rows = 32,
          .kv_block_tokens = 16,
          .kv_cache_bytes = 32 << 20,
          .num_threads = 1};
}

struct GoldenText {
  std::vector<std::uint32_t> prompt;
  std::vector<std::uint32_t> greedy;
  std::vector<float> logprobs;
  double min_gap;
};

std::vector<GoldenText> ReadGoldenTexts() {
  std::ifstream file(std::string(TRIREME_FIXTURES) + "/smollm2/golden.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  std::vector<GoldenText> texts;
  for (const nlohmann::json& c : golden.at("cases")) {
    GoldenText& text = texts.emplace_back();
    c.at("prompt_ids").get_to(text.prompt);
    c.at("greedy_ids").get_to(text.greedy);
    c.at("greedy_logprobs").get_to(text.logprobs);
    text.min_gap = c.at("min_top2_gap");
  }
  CHECK(!texts.empty());
  return texts;
}

// Where two tokens are within 2e-3 of each other the reference's own order is not certain: then the one we
// chose must be as likely as the reference's, and what follows is another text.
void ExpectGreedy(const GoldenText& text, const std::vector<v1::SampledToken>& sampled) {
  constexpr double kTolerance = 2e-3;
  ASSERT_EQ(sampled.size(), text.greedy.size());
  for (std::size_t i = 0; i < text.greedy.size(); ++i) {
    ASSERT_NEAR(sampled[i].logprob(), text.logprobs[i], kTolerance) << "token " << i;
    if (sampled[i].token_id() != text.greedy[i]) {
      EXPECT_LE(text.min_gap, kTolerance) << "token " << i << " is " << sampled[i].token_id();
      return;
    }
  }
}

// All texts at once, one in each slot, so that weights are streamed once a step for all.
absl::Status GenerateAll(const std::vector<GoldenText>& texts, ModelDriver& driver) {
  std::vector<Work> work;
  for (std::uint32_t slot = 0; slot < texts.size(); ++slot) {
    driver.Admit(slot, texts[slot].prompt, GreedyWithLogprobs(8));
    work.push_back({slot, static_cast<std::uint32_t>(texts[slot].prompt.size())});
  }
  while (!work.empty()) {
    RETURN_IF_ERROR(driver.Step(work).status());
    work.clear();
    for (std::uint32_t slot = 0; slot < texts.size(); ++slot) {
      if (driver.sampled(slot).size() < texts[slot].greedy.size()) work.push_back({slot, 1});
    }
  }
  return absl::OkStatus();
}

TEST_P(DemoModelTest, ContinuesAsTransformersDoes) {
  const std::vector<GoldenText> texts = ReadGoldenTexts();
  const absl::Status status = RunLoadedRanks(GetParam(), Options(), [&](LoadedRank& rank) -> absl::Status {
    RETURN_IF_ERROR(GenerateAll(texts, rank.driver));
    for (std::uint32_t slot = 0; rank.is_first() && slot < texts.size(); ++slot) {
      ExpectGreedy(texts[slot], rank.driver.sampled(slot));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// The reference's continuation as part of the prompt, in chunks: of each of its tokens we know its log-probability.
TEST_P(DemoModelTest, TellsPromptLogprobsAsTransformersDoes) {
  const GoldenText text = ReadGoldenTexts()[0];
  std::vector<std::uint32_t> prompt = text.prompt;
  prompt.insert(prompt.end(), text.greedy.begin(), text.greedy.end());
  v1::Sampling sampling = Greedy();
  sampling.set_prompt_logprobs(0);
  const absl::Status status = RunLoadedRanks(GetParam(), Options(), [&](LoadedRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.driver.Generate(0, prompt, sampling, 1, 32));
    EXPECT_EQ(rank.driver.prompt_tokens(0).size(), prompt.size() - 1);
    for (std::size_t i = 0; i < text.greedy.size(); ++i) {
      const v1::SampledToken& token = rank.driver.prompt_tokens(0).at(text.prompt.size() - 1 + i);
      EXPECT_EQ(token.token_id(), text.greedy[i]);
      EXPECT_NEAR(token.logprob(), text.logprobs[i], 2e-3) << "token " << i;
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Bytes that this thread has asked of read calls.
std::int64_t BytesReadByThisThread() {
  std::ifstream file("/proc/thread-self/io");
  std::string key;
  std::int64_t value = 0;
  file >> key >> value;
  CHECK(key == "rchar:") << key;
  return value;
}

// What the file holds of the rank's slices and of what it shares with others; of quantized rows, whole blocks.
double BytesOfSlices(const sharding::Model& model, const sharding::CompiledProgram& program) {
  double bytes = 0;
  for (const sharding::LocalParameter& parameter : program.parameters) {
    const auto& traits = sharding::TraitsOf(model.checkpoint->FindTensor(parameter.name)->dtype);
    std::int64_t num_blocks_in_row = 0;
    for (const sharding::Interval& columns : parameter.slices.back()) {
      num_blocks_in_row +=
          (columns.end + traits.block_elements - 1) / traits.block_elements - columns.begin / traits.block_elements;
    }
    const std::int64_t num_rows = parameter.slices.size() == 1 ? 1 : sharding::TotalSize(parameter.slices.front());
    bytes += static_cast<double>(num_rows * num_blocks_in_row * traits.block_bytes);
  }
  return bytes;
}

absl::Status CheckBytesRead(Communicator& communicator) {
  std::int64_t before = BytesReadByThisThread();
  ASSIGN_OR_RETURN(const sharding::Model model,
                   sharding::OpenModel(DemoModel(), sharding::StrategyRegistry::BuiltIn()));
  const std::int64_t header_bytes = BytesReadByThisThread() - before;
  ASSIGN_OR_RETURN(const auto program, sharding::Compile(model.program, model.plan, communicator.rank()));

  before = BytesReadByThisThread();
  LoadProgress progress;
  ASSIGN_OR_RETURN(const auto executor, Executor::Load(Options(), communicator, progress));
  const double asked = static_cast<double>(executor->sizes().bytes_read);
  const double counted_by_the_system = static_cast<double>(BytesReadByThisThread() - before - header_bytes);
  const double wanted = BytesOfSlices(model, program);
  EXPECT_NEAR(asked / wanted, 1, 0.02) << asked << " of " << wanted;
  const auto planned = static_cast<double>(sharding::Describe(program, {.weights = 4, .kv_cache = 4}).weight_bytes);
  const auto held = static_cast<double>(executor->sizes().weight_bytes);
  EXPECT_GE(held, planned);
  EXPECT_LT(held / planned, 1.05) << held << " held, with padding, " << planned << " planned";
  EXPECT_NEAR(counted_by_the_system / asked, 1, 0.01) << counted_by_the_system << " of " << asked;
  return absl::OkStatus();
}

TEST_P(DemoModelTest, ReadsItsSlicesAndNoMore) {
  const auto results = test_support::RunRanks(GetParam(), CheckBytesRead);
  const absl::Status cause = test_support::FirstCause(results);
  EXPECT_TRUE(cause.ok()) << cause;
}

INSTANTIATE_TEST_SUITE_P(Degrees, DemoModelTest, testing::Values(1, 3, 9),
                         [](const testing::TestParamInfo<int>& tp) { return absl::StrCat("tp", tp.param); });

}  // namespace
}  // namespace trireme::worker
