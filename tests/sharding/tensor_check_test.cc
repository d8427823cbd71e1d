#include "sharding/tensor_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sharding/program/small_models.h"

namespace trireme::sharding {
namespace {

using ::testing::HasSubstr;

// The tensors that a program needs.
std::map<std::string, TensorInfo> TensorsOf(const Program& program) {
  std::map<std::string, TensorInfo> tensors;
  for (const Parameter& parameter : program.parameters) {
    TensorInfo& tensor = tensors[parameter.name];
    tensor.name = parameter.name;
    for (const Axis& axis : parameter.axes) tensor.shape.push_back(axis.extent());
  }
  return tensors;
}

DecoderSpec Spec(bool tied) {
  DecoderSpec spec;
  spec.tied_head = tied;
  spec.harmless_tensors = {"rotary_emb.inv_freq"};
  return spec;
}

TEST(CheckTensors, AcceptsExactlyWhatIsNeeded) {
  const Program program = MakeLlama().program;
  EXPECT_TRUE(CheckTensors(program, Spec(false), TensorsOf(program)).ok());
}

TEST(CheckTensors, AcceptsWhatIsKnownAndNotNeeded) {
  const Program program = MakeLlama({{"tie_word_embeddings", true}}).program;
  auto tensors = TensorsOf(program);
  for (const char* name : {"lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq", kRopeDivisors})
    tensors[name];
  EXPECT_TRUE(CheckTensors(program, Spec(true), tensors).ok());
}

TEST(CheckTensors, NamesAllOfEachKindAtOnce) {
  const Program program = MakeLlama().program;
  auto tensors = TensorsOf(program);
  tensors.erase("model.norm.weight");
  tensors.erase("model.layers.1.mlp.up_proj.weight");
  tensors["model.layers.2.mlp.up_proj.weight"];
  tensors["model.layers.0.self_attn.q_proj.bias"];
  tensors["lm_head.weight"].shape = {36, 24};
  tensors["model.embed_tokens.weight"].dtype = DType::kI64;
  const absl::Status status = CheckTensors(program, Spec(false), tensors);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "missing tensors: model.layers.1.mlp.up_proj.weight, model.norm.weight\n"
            "unknown tensors: model.layers.0.self_attn.q_proj.bias, model.layers.2.mlp.up_proj.weight\n"
            "tensors of a wrong shape: lm_head.weight is [36, 24], not [37, 24]\n"
            "tensors of an element type that is not supported: model.embed_tokens.weight is I64");
}

TEST(CheckTensors, TakesAHeadsTransposeForAWrongShape) {
  const Program program = MakeLlama().program;
  auto tensors = TensorsOf(program);
  std::swap(tensors["lm_head.weight"].shape[0], tensors["lm_head.weight"].shape[1]);
  EXPECT_THAT(std::string(CheckTensors(program, Spec(false), tensors).message()), HasSubstr("[24, 37], not [37, 24]"));
}

}  // namespace
}  // namespace trireme::sharding
