// What a decoder-only model computes, as types. The builders (build_decoder.h) switch on these and never on a family's
// name; a family is a mapping from config.json to one of these and a table of tensor names, nothing else.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "sharding/program/program.h"

namespace trireme::sharding {

struct NormSpec {
  float epsilon = 0;
};

enum class QkvPacking { kSeparate };  // q_proj, k_proj, v_proj; fused ones come with their families
enum class MlpPacking { kSeparate };  // gate_proj, up_proj

struct AttentionSpec {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  QkvPacking packing = QkvPacking::kSeparate;
  bool qkv_bias = false;
  bool output_bias = false;
  int rope_table = 0;  // index into DecoderSpec::rope_tables
  float scale = 1;     // of q·k
};

struct MlpSpec {
  std::int64_t intermediate = 0;
  MlpPacking packing = MlpPacking::kSeparate;
  Activation activation = Activation::kSilu;
  bool bias = false;
};

struct LayerSpec {
  NormSpec attention_norm;
  AttentionSpec attention;
  NormSpec mlp_norm;
  MlpSpec mlp;
};

// Module names below a layer's prefix, and of the parts outside layers.
struct ModuleNames {
  std::string embed = "model.embed_tokens";
  std::string layers = "model.layers";
  std::string attention_norm = "input_layernorm";
  std::string q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", o = "self_attn.o_proj";
  std::string attention = "self_attn";
  std::string mlp_norm = "post_attention_layernorm";
  std::string gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj";
  std::string mlp = "mlp";
  std::string final_norm = "model.norm";
  std::string head = "lm_head";
};

struct DecoderSpec {
  std::string model_type;  // "llama"
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;
  std::vector<LayerSpec> layers;
  NormSpec final_norm;
  bool tied_head = false;
  std::vector<RopeTable> rope_tables;
  ModuleNames names;
  // Suffixes of checkpoint tensors that are known and not needed ("rotary_emb.inv_freq").
  std::vector<std::string> harmless_tensors;
};

}  // namespace trireme::sharding
