#include "sharding/checkpoint/gguf_llama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "sharding/checkpoint/gguf_tokenizer_metadata.h"

namespace trireme::sharding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What every llama file has, with `change` on top: a value of nothing removes a key.
GgufHeader Header(std::map<std::string, std::optional<GgufValue>> change = {}) {
  std::map<std::string, std::optional<GgufValue>> values = {
      {"general.architecture", GgufValue("llama")},
      {"llama.block_count", GgufValue(std::uint32_t{2})},
      {"llama.context_length", GgufValue(std::uint32_t{512})},
      {"llama.embedding_length", GgufValue(std::uint32_t{64})},
      {"llama.feed_forward_length", GgufValue(std::uint32_t{96})},
      {"llama.attention.head_count", GgufValue(std::uint32_t{4})},
      {"llama.attention.layer_norm_rms_epsilon", GgufValue(1e-5f)},
      {"llama.vocab_size", GgufValue(std::uint32_t{100})}};
  for (auto& [key, value] : change) values[key] = value;
  GgufHeader header;
  for (auto& [key, value] : values) {
    if (value.has_value()) header.metadata.Insert(key, *value);
  }
  return header;
}

std::string Refusal(std::map<std::string, std::optional<GgufValue>> change) {
  const auto config = LlamaConfig(Header(std::move(change)));
  EXPECT_FALSE(config.ok());
  return std::string(config.status().message());
}

TEST(LlamaTensorName, TranslatesEveryName) {
  const std::pair<const char*, const char*> cases[] = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"output.weight", "lm_head.weight"},
      {"rope_freqs.weight", "rope_freqs.weight"},
      {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
      {"blk.11.attn_q.weight", "model.layers.11.self_attn.q_proj.weight"},
      {"blk.11.attn_q.bias", "model.layers.11.self_attn.q_proj.bias"},
      {"blk.1.attn_k.weight", "model.layers.1.self_attn.k_proj.weight"},
      {"blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"},
      {"blk.1.attn_output.weight", "model.layers.1.self_attn.o_proj.weight"},
      {"blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
      {"blk.1.ffn_gate.weight", "model.layers.1.mlp.gate_proj.weight"},
      {"blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight"},
      {"blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"}};
  for (const auto& [gguf, hugging_face] : cases) EXPECT_EQ(*LlamaTensorName(gguf), hugging_face);
}

TEST(LlamaTensorName, RefusesUnknownNames) {
  for (const char* name :
       {"", "output", "blk.0.attn_q", "blk.x.attn_q.weight", "blk.-1.attn_q.weight", "blk.00.attn_q.weight",
        "blk.+1.attn_q.weight", "blk.99999999999.attn_q.weight", "blk.0.ffn_gate_inp.weight", "blk.attn_q.weight",
        "blk..attn_q.weight", "token_embd.scale"}) {
    EXPECT_THAT(std::string(LlamaTensorName(name).status().message()), HasSubstr("is not known in architecture llama"))
        << name;
  }
}

TEST(LlamaConfig, FillsInDefaults) {
  const auto config = LlamaConfig(Header());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, nlohmann::json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "max_position_embeddings": 512, "vocab_size": 100, "head_dim": 16, "num_attention_heads": 4,
    "num_key_value_heads": 4, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "rope_scaling": null,
    "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": true})"));
}

TEST(LlamaConfig, TensorsTellBiasesAndHead) {
  GgufHeader header = Header();
  for (const char* name : {"blk.0.attn_q.bias", "blk.0.ffn_down.bias", "output.weight"}) {
    header.tensors.push_back({.name = name});
  }
  const auto config = *LlamaConfig(header);
  EXPECT_EQ(config.at("attention_bias"), true);
  EXPECT_EQ(config.at("mlp_bias"), true);
  EXPECT_EQ(config.at("tie_word_embeddings"), false);
}

TEST(LlamaConfig, VocabularyComesFromTokensWithoutAKey) {
  const auto config = LlamaConfig(Header(
      {{"llama.vocab_size", {}}, {"tokenizer.ggml.tokens", GgufValue(std::vector<std::string>{"a", "b", "c"})}}));
  EXPECT_EQ(config->at("vocab_size"), 3);
}

TEST(LlamaConfig, RopeScaling) {
  const auto scaling = [](std::map<std::string, std::optional<GgufValue>> change) {
    return LlamaConfig(Header(std::move(change)))->at("rope_scaling");
  };
  EXPECT_EQ(scaling({{"llama.rope.scaling.type", GgufValue("none")}}), nullptr);
  EXPECT_EQ(scaling({{"llama.rope.scaling.type", GgufValue("linear")}, {"llama.rope.scaling.factor", GgufValue(2.5f)}}),
            nlohmann::json::parse(R"({"rope_type": "linear", "factor": 2.5})"));
  EXPECT_EQ(scaling({{"llama.rope.scale_linear", GgufValue(4.0f)}}),
            nlohmann::json::parse(R"({"rope_type": "linear", "factor": 4.0})"));
  EXPECT_EQ(scaling({{"llama.rope.scaling.type", GgufValue("yarn")},
                     {"llama.rope.scaling.factor", GgufValue(4.0f)},
                     {"llama.rope.scaling.original_context_length", GgufValue(std::uint32_t{128})}}),
            nlohmann::json::parse(R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128})"));
}

TEST(LlamaConfig, RefusesByName) {
  const GgufValue zero(std::uint32_t{0});
  EXPECT_EQ(Refusal({{"general.architecture", GgufValue("qwen2")}}),
            "architecture \"qwen2\" is not supported; supported: llama");
  EXPECT_EQ(Refusal({{"general.architecture", {}}}), "metadata key \"general.architecture\" is missing");
  EXPECT_EQ(Refusal({{"llama.block_count", {}}}), "metadata key \"llama.block_count\" is missing");
  EXPECT_EQ(Refusal({{"llama.block_count", zero}}), "llama.block_count is 0, expected 1 to 2^30");
  EXPECT_EQ(Refusal({{"llama.attention.head_count", GgufValue(std::vector<std::uint32_t>{4, 4})}}),
            "metadata key \"llama.attention.head_count\" has type array of u32, expected u32");
  EXPECT_THAT(Refusal({{"llama.attention.head_count", GgufValue(std::uint32_t{5})}}),
              HasSubstr("64, no multiple of the 5"));
  EXPECT_THAT(Refusal({{"llama.attention.key_length", GgufValue(std::uint32_t{15})}}),
              HasSubstr("15, expected an even"));
  EXPECT_THAT(Refusal({{"llama.attention.value_length", GgufValue(std::uint32_t{8})}}),
              HasSubstr("a head's width is 16"));
  EXPECT_THAT(Refusal({{"llama.rope.dimension_count", GgufValue(std::uint32_t{8})}}),
              HasSubstr("rope.dimension_count is 8"));
  EXPECT_THAT(Refusal({{"llama.attention.layer_norm_rms_epsilon", GgufValue(NAN)}}),
              HasSubstr("expected a positive number"));
  EXPECT_THAT(Refusal({{"llama.rope.freq_base", GgufValue(-1.0f)}}), HasSubstr("llama.rope.freq_base is -1"));
  EXPECT_THAT(Refusal({{"llama.expert_count", GgufValue(std::uint32_t{8})}}), HasSubstr("mixtures of experts"));
  EXPECT_THAT(Refusal({{"llama.logit_scale", GgufValue(2.0f)}}), HasSubstr("\"llama.logit_scale\" is not known"));
  EXPECT_THAT(Refusal({{"llama.rope.scaling.type", GgufValue("longrope")}}),
              HasSubstr("\"longrope\"; supported: none"));
  EXPECT_THAT(
      Refusal({{"llama.rope.scaling.type", GgufValue("yarn")}, {"llama.rope.scaling.attn_factor", GgufValue(2.0f)}}),
      HasSubstr("attn_factor is 2, only 1"));
}

TEST(LlamaTensors, MarksQueriesAndKeysOnly) {
  GgufHeader header = Header();
  header.tensors = {{.name = "blk.0.attn_q.weight", .shape = {64, 64}},
                    {.name = "blk.0.attn_k.bias", .shape = {32}},
                    {.name = "blk.0.attn_v.weight", .shape = {32, 64}}};
  const auto tensors = LlamaTensors(header);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].interleaved_head_rows, 16);
  EXPECT_EQ((*tensors)[1].interleaved_head_rows, 16);
  EXPECT_EQ((*tensors)[2].interleaved_head_rows, std::nullopt);
}

TEST(LlamaTensors, RefusesBrokenHeads) {
  GgufHeader header = Header();
  header.tensors = {{.name = "blk.0.attn_q.weight", .shape = {63, 64}}};
  EXPECT_THAT(std::string(LlamaTensors(header).status().message()),
              HasSubstr("\"blk.0.attn_q.weight\" has shape [63, 64], expected rows in whole heads of 16"));
}

GgufMetadata Tokenizer(std::map<std::string, std::optional<GgufValue>> change = {}) {
  change.try_emplace("tokenizer.ggml.model", GgufValue("gpt2"));
  change.try_emplace("tokenizer.ggml.tokens", GgufValue(std::vector<std::string>{"a", "<|im_end|>", "c"}));
  return Header(std::move(change)).metadata;
}

TEST(TokenizerFromGguf, NothingWithoutAModel) {
  EXPECT_EQ(TokenizerFromGguf(Tokenizer({{"tokenizer.ggml.model", {}}}))->has_value(), false);
  EXPECT_EQ(TokenizerFromGguf(Tokenizer({{"tokenizer.ggml.model", GgufValue("none")}}))->has_value(), false);
}

TEST(TokenizerFromGguf, RefusesWhatDoesNotFitTogether) {
  const auto refusal = [](const char* key, GgufValue value) {
    return std::string(TokenizerFromGguf(Tokenizer({{key, std::move(value)}})).status().message());
  };
  EXPECT_EQ(refusal("tokenizer.ggml.eos_token_id", GgufValue(std::uint32_t{3})),
            "tokenizer.ggml.eos_token_id is 3, but there are 3 tokens");
  EXPECT_EQ(refusal("tokenizer.ggml.scores", GgufValue(std::vector<float>{1, 2})),
            "tokenizer.ggml.scores has 2 entries, tokenizer.ggml.tokens has 3");
  EXPECT_EQ(refusal("tokenizer.ggml.token_type", GgufValue(std::vector<std::int32_t>{1})),
            "tokenizer.ggml.token_type has 1 entries, tokenizer.ggml.tokens has 3");
  EXPECT_EQ(refusal("tokenizer.ggml.tokens", GgufValue(std::vector<std::string>{"a", "\xc0\x80"})),
            "tokenizer.ggml.tokens 1 is \"\\xc0\\x80\", which is not UTF-8");
  EXPECT_THAT(refusal("tokenizer.chat_template", GgufValue("\xff")), HasSubstr("is not UTF-8"));
  EXPECT_THAT(refusal("tokenizer.ggml.add_bos_token", GgufValue(std::uint32_t{1})),
              HasSubstr("has type u32, expected bool"));
}

TEST(EndOfGenerationIds, AreTheIdsAndTheTexts) {
  GgufTokenizerMetadata tokenizer;
  tokenizer.tokens = {"a", "<|im_end|>", "<|endoftext|>", "</s>"};
  EXPECT_THAT(EndOfGenerationIds(tokenizer), ElementsAre(1, 2));
  tokenizer.eos_id = 3;
  tokenizer.token_types = {1, 3, 1, 3};
  EXPECT_THAT(EndOfGenerationIds(tokenizer), ElementsAre(1, 3));
  tokenizer.token_types = {1, 4, 1, 3};
  tokenizer.eot_id = 0;
  EXPECT_THAT(EndOfGenerationIds(tokenizer), ElementsAre(0, 1, 3));
}

}  // namespace
}  // namespace trireme::sharding
