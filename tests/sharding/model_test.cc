#include "sharding/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/check.h"
#include "tests/sharding/checkpoint/checkpoint_files.h"
#include "tests/support/reference_program.h"

namespace trireme::sharding {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The reference's own tolerance in float32.
constexpr double kTolerance = 1e-4;

json ReadJson(const std::filesystem::path& path) { return json::parse(ReadFile(path)); }

absl::StatusOr<Model> Open(const std::filesystem::path& path, const Plan& plan = {}) {
  return OpenModel(path, StrategyRegistry::BuiltIn(), plan);
}

testing::ReadParameter PartsOf(const Checkpoint& checkpoint) {
  return [&](const LocalParameter& parameter) {
    const std::vector<std::int64_t> shape = parameter.local_shape();
    testing::Matrix matrix(shape.size() == 1 ? 1 : shape[0], shape.back());
    CHECK_OK(checkpoint.Read(parameter.name, parameter.slices, DType::kF32, matrix.data.data()));
    return matrix;
  };
}

std::vector<CompiledProgram> CompileAll(const Model& model, int world) {
  std::vector<CompiledProgram> ranks;
  for (int index = 0; index < world; ++index) {
    absl::StatusOr<CompiledProgram> compiled = Compile(model.program, model.plan, {.index = index, .world = world});
    CHECK_OK(compiled.status());
    ranks.push_back(*std::move(compiled));
  }
  return ranks;
}

std::vector<int> ValidDegreesUpTo8(const std::string& fixture) {
  return ReadJson(Fixture("hf/valid_tp.json"))[fixture]["valid_tp"].get<std::vector<int>>();
}

// The largest distance from the golden logits: the last position's, and the first 16 at some others.
double DistanceFromGolden(const testing::Matrix& logits, const json& golden_case) {
  const auto expected = golden_case["last_logits"].get<std::vector<double>>();
  CHECK_EQ(static_cast<std::int64_t>(expected.size()), logits.cols);
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i] - logits.at(logits.rows - 1, static_cast<std::int64_t>(i))));
  }
  for (const auto& [position, first] : golden_case["logits_at"].items()) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      const double got = logits.at(std::stoi(position), static_cast<std::int64_t>(i));
      largest = std::max(largest, std::abs(first[i].get<double>() - got));
    }
  }
  return largest;
}

void ExpectGoldenLogits(const Model& model, const std::string& fixture) {
  const json golden = ReadJson(Fixture("hf/" + fixture + "/golden.json"));
  for (const int world : ValidDegreesUpTo8(fixture)) {
    const std::vector<CompiledProgram> ranks = CompileAll(model, world);
    for (const json& golden_case : golden["cases"]) {
      const testing::Prompt prompt = testing::AllPositions(golden_case["prompt"].get<std::vector<int>>());
      const testing::Matrix logits = testing::RunRanks(ranks, PartsOf(*model.checkpoint), prompt);
      EXPECT_LT(DistanceFromGolden(logits, golden_case), kTolerance) << fixture << " at " << world;
    }
  }
}

std::vector<int> UpTo8(std::vector<int> degrees) {
  std::erase_if(degrees, [](int degree) { return degree > 8; });
  return degrees;
}

// A fixture with another config or other tensors.
class ChangedFixture {
 public:
  explicit ChangedFixture(const std::string& name) : original_(Fixture("hf/" + name)) {
    for (const char* file : {"config.json", "generation_config.json", "model.safetensors"}) {
      std::filesystem::copy_file(original_ / file, folder_.path() / file);
    }
  }

  const std::filesystem::path& path() const { return folder_.path(); }

  void UseConfig(const std::string& file) { SetConfig(ReadJson(original_ / file)); }
  void SetConfig(const json& config) { WriteFile(path() / "config.json", config.dump()); }
  void ChangeConfig(const json& changes) {
    json config = ReadJson(path() / "config.json");
    config.update(changes);
    SetConfig(config);
  }

  void AddTensor(const std::string& name, std::vector<float> values) {
    const std::string file = ReadFile(path() / "model.safetensors");
    std::uint64_t header_size = 0;
    std::memcpy(&header_size, file.data(), sizeof header_size);
    json header = json::parse(file.substr(8, header_size));
    std::string data = file.substr(8 + header_size);
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", {values.size()}}, {"data_offsets", {begin, data.size()}}};
    const std::string text = header.dump();
    WriteFile(path() / "model.safetensors", BytesBuilder().Add(std::uint64_t{text.size()}).Raw(text).Raw(data).bytes());
  }

 private:
  std::filesystem::path original_;
  TemporaryFolder folder_;
};

class GoldenModel : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenModel, GivesTheReferencesLogitsAtEveryDegree) {
  const auto model = Open(Fixture("hf/") / GetParam());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->family_has_plan);
  EXPECT_EQ(UpTo8(model->valid_tp_degrees), ValidDegreesUpTo8(GetParam()));
  ExpectGoldenLogits(*model, GetParam());
}

TEST_P(GoldenModel, IsTheSameInTheOlderSpelling) {
  ChangedFixture fixture(GetParam());
  fixture.UseConfig("config.v4.json");
  const auto model = Open(fixture.path());
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectGoldenLogits(*model, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenModel, ::testing::Values("llama", "llama_bias", "llama_llama3", "text_llama"));

TEST(OpenModel, ReadsHeadersOnly) {
  const auto model = Open(Fixture("hf/llama"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->checkpoint->tensor_bytes_read(), 0);
}

TEST(OpenModel, OpensGguf) {
  const auto model = Open(Fixture("gguf/llama_bias.gguf"));
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectGoldenLogits(*model, "llama_bias");
}

TEST(OpenModel, DividesFrequenciesByTheTensorOfAGguf) {
  ChangedFixture fixture("llama");
  fixture.AddTensor("rope_freqs.weight", {1, 1, 2, 4, 8, 8, 8, 8});
  const auto divided = Open(fixture.path());
  ASSERT_TRUE(divided.ok()) << divided.status();
  const auto plain = Open(Fixture("hf/llama"));
  EXPECT_EQ(divided->program.rope_tables[0].inv_freq[1], plain->program.rope_tables[0].inv_freq[1]);
  EXPECT_EQ(divided->program.rope_tables[0].inv_freq[7], plain->program.rope_tables[0].inv_freq[7] / 8);
}

TEST(OpenModel, RefusesDivisorsThatCannotBe) {
  ChangedFixture few("llama"), zero("llama");
  few.AddTensor("rope_freqs.weight", {1, 1});
  zero.AddTensor("rope_freqs.weight", {1, 1, 0, 4, 8, 8, 8, 8});
  EXPECT_THAT(std::string(Open(few.path()).status().message()), HasSubstr("[2], not [8]"));
  EXPECT_THAT(std::string(Open(zero.path()).status().message()), HasSubstr("has 0 at 2"));
}

TEST(OpenModel, NamesTheFileAndWhatIsWrongInIt) {
  ChangedFixture fixture("llama");
  fixture.AddTensor("model.layers.0.self_attn.q_proj.scales", {1});
  const std::string unknown_tensor(Open(fixture.path()).status().message());
  EXPECT_THAT(unknown_tensor, AllOf(HasSubstr(fixture.path().string()),
                                    HasSubstr("unknown tensors: model.layers.0.self_attn.q_proj.scales")));
  fixture.ChangeConfig({{"model_type", "mamba"}});
  EXPECT_THAT(std::string(Open(fixture.path()).status().message()), HasSubstr("model_type is \"mamba\""));
}

TEST(OpenModel, NoticesAConfigThatDoesNotFitTheTensors) {
  ChangedFixture fixture("llama");
  fixture.ChangeConfig({{"num_hidden_layers", 4}, {"intermediate_size", 95}, {"attention_bias", true}});
  const std::string message(Open(fixture.path()).status().message());
  EXPECT_THAT(message,
              AllOf(HasSubstr("model.layers.3.mlp.up_proj.weight"), HasSubstr("model.layers.0.self_attn.q_proj.bias"),
                    HasSubstr("model.layers.2.mlp.down_proj.weight is [64, 96], not [64, 95]")));
}

TEST(OpenModel, NamesAMissingModel) {
  const absl::Status status = Open("/no/such/model").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/model"));
}

TEST(OpenModel, PutsTheUsersRulesOverTheFamilys) {
  const Plan gathered{.rules = {{"lm_head", "colwise_gather_output"}}};
  const auto model = Open(Fixture("hf/llama"), gathered);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->plan.ForModule("lm_head")->name(), "colwise_gather_output");
  EXPECT_EQ(model->plan.ForModule("model.layers.2.mlp.down_proj")->name(), "rowwise");
  ExpectGoldenLogits(*model, "llama");
  EXPECT_FALSE(Open(Fixture("hf/llama"), {.rules = {{"lm_haed", "colwise"}}}).ok());
}

TEST(CheckTpDegree, SaysAllThatIsWrongAndWhatWouldBeRight) {
  const auto model = Open(Fixture("hf/llama_bias"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(CheckTpDegree(*model, 3).ok());
  const absl::Status status = CheckTpDegree(*model, 4);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "tp_degree 4 does not fit the model:\n"
            "  6 query heads cannot be divided evenly among 4 ranks (model.layers.*.self_attn.q_proj, "
            "model.layers.*.self_attn.o_proj)\n"
            "  3 KV heads can neither be divided evenly among 4 ranks nor be replicated evenly to them "
            "(model.layers.*.self_attn.k_proj, model.layers.*.self_attn.v_proj)\n"
            "valid tp_degree: 1, 3, 6");
}

TEST(CheckTpDegree, RefusesNumbersThatAreNoDegree) {
  const auto model = Open(Fixture("hf/llama"));
  for (const int degree : {0, -1, kMaxTpDegree + 1, 2147483647}) {
    EXPECT_THAT(std::string(CheckTpDegree(*model, degree).message()),
                AllOf(HasSubstr("not from 1 to 128"), HasSubstr("valid tp_degree: 1, 2, 4")))
        << degree;
  }
}

// Empty if the demo model is not there.
std::filesystem::path DemoModel() {
  const char* given = std::getenv("TRIREME_DEMO_MODEL");
  const char* home = std::getenv("HOME");
  const std::filesystem::path path = given != nullptr ? std::filesystem::path(given)
                                                      : std::filesystem::path(home == nullptr ? "" : home) /
                                                            ".cache/trireme/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

TEST(DemoModel, FitsOneThreeAndNineRanksByItsHeaders) {
  if (DemoModel().empty()) GTEST_SKIP() << "the demo model is not there (TRIREME_DEMO_MODEL, ~/.cache/trireme/models)";
  const auto model = Open(DemoModel());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->valid_tp_degrees, ElementsAre(1, 3, 9));
  EXPECT_THAT(std::string(CheckTpDegree(*model, 2).message()),
              AllOf(HasSubstr("9 query heads"), HasSubstr("3 KV heads"), HasSubstr("valid tp_degree: 1, 3, 9")));
  EXPECT_EQ(model->checkpoint->tensor_bytes_read(), 0);
  EXPECT_LT(model->checkpoint->header_bytes_read(), 2'500'000);
}

}  // namespace
}  // namespace trireme::sharding
