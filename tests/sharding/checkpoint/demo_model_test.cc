// The demo model, where it has been fetched. Other block types: checkpoint_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include <nlohmann/json.hpp>

#include "sharding/checkpoint/checkpoint.h"
#include "tests/sharding/checkpoint/checkpoint_files.h"

namespace trireme::sharding {
namespace {

constexpr std::int64_t kDataOffset = 1'785'664;

std::filesystem::path DemoModel() {
  if (const char* path = std::getenv("TRIREME_DEMO_MODEL")) return path;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) / ".cache/trireme/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class DemoModelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(DemoModel())) {
      GTEST_SKIP() << "no demo model at " << DemoModel() << "; set TRIREME_DEMO_MODEL";
    }
    auto opened = Checkpoint::Open(DemoModel());
    ASSERT_TRUE(opened.ok()) << opened.status();
    checkpoint_ = *std::move(opened);
  }

  std::vector<float> ReadFloats(const std::string& name, const std::vector<Intervals>& slices) {
    std::size_t size = 1;
    for (const Intervals& intervals : slices) size *= static_cast<std::size_t>(TotalSize(intervals));
    std::vector<float> out(size);
    const absl::Status status = checkpoint_->Read(name, slices, DType::kF32, out.data());
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(DemoModelTest, OpensByReadingItsHeaderOnly) {
  EXPECT_EQ(checkpoint_->tensors().size(), 272u);
  EXPECT_EQ(checkpoint_->FindTensor("model.embed_tokens.weight")->byte_offset, kDataOffset);
  EXPECT_GE(checkpoint_->header_bytes_read(), kDataOffset);
  EXPECT_LT(checkpoint_->header_bytes_read(), kDataOffset + 65536);
  EXPECT_EQ(checkpoint_->tensor_bytes_read(), 0);
}

TEST_F(DemoModelTest, ConfigIsThatOfHuggingFace) {
  EXPECT_EQ(checkpoint_->config(), nlohmann::json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 576,
    "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "head_dim": 64, "vocab_size": 49152, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
    "rope_theta": 100000.0, "rope_scaling": null, "attention_bias": false, "mlp_bias": false,
    "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2})"));
  // <|im_end|>, and <|endoftext|> as in llama.cpp.
  EXPECT_EQ(checkpoint_->generation_config(), nlohmann::json::parse(R"({"eos_token_id": [0, 2], "bos_token_id": 1})"));
  EXPECT_EQ(checkpoint_->gguf_tokenizer()->tokens.size(), 49152u);
}

// Dequantized, and permuted by reshaping, by tests/fixtures/gguf/make.py.
TEST_F(DemoModelTest, ElementsEqualTheReference) {
  const auto samples = nlohmann::json::parse(ReadFile(Fixture("gguf/demo_samples.json")));
  ASSERT_GT(samples.size(), 300u);
  for (const auto& sample : samples) {
    std::vector<Intervals> element;
    for (const std::int64_t index : sample.at("at")) element.push_back({{index, index + 1}});
    EXPECT_EQ(ReadFloats(sample.at("name"), element), std::vector<float>{sample.at("value").get<float>()}) << sample;
  }
}

TEST_F(DemoModelTest, AThirdOfEachMatrixCostsAThirdOfItsBytes) {
  std::int64_t expected = 0;
  for (const auto& [name, tensor] : checkpoint_->tensors()) {
    if (tensor.shape.size() != 2) continue;
    std::vector<Intervals> slices = WholeTensor(tensor.shape);
    const bool by_columns = name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
    Intervals& cut = slices[by_columns ? 1 : 0];
    cut = {{cut[0].end / 3, 2 * cut[0].end / 3}};
    ReadFloats(name, slices);
    expected += tensor.byte_size / 3;
  }
  EXPECT_EQ(checkpoint_->tensor_bytes_read(), expected);
}

}  // namespace
}  // namespace trireme::sharding
