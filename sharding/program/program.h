// A model as a program: ops over named values, on full shapes, with no thought of ranks.
//
// Goals: read like the paper; know for each axis which unit is never divided; tie each op to the dotted
// Hugging Face name of its module, which is what plans speak of. Non-goals: collectives (the layout compiler
// inserts them, compile.h), memory, devices, batching. Rows (tokens) are not a dimension here: every value is
// a matrix with a row per token of the step, or per sampled position.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sharding/placement/placement.h"

namespace trireme::sharding {

using ValueId = int;      // index into Program::values
using ParameterId = int;  // index into Program::parameters

// A tensor of the checkpoint.
struct Parameter {
  std::string name;        // as in the checkpoint: "model.layers.0.self_attn.q_proj.weight"
  std::vector<Axis> axes;  // slowest first, as in Hugging Face: a Linear is [out, in]
};

enum class Rows {
  kTokens,   // a row per token of the step
  kSampled,  // a row per position that is sampled from, or whose logits are asked for
};

// A matrix [rows, features] of activations.
struct Value {
  std::string name;  // module and role, for people: "model.layers.0.self_attn.q_proj"
  Rows rows = Rows::kTokens;
  Axis features;
};

// out[r, :] = table[token_id[r], :]. No inputs: the step's token ids are implied. Table [vocabulary, hidden].
struct EmbedOp {
  ParameterId table = 0;
};
// out = x · weightᵀ + bias. Weight [out, in], bias [out].
struct LinearOp {
  ParameterId weight = 0;
  std::optional<ParameterId> bias;
};
// See kernels/rms_norm.h. Weight [features].
struct RmsNormOp {
  ParameterId weight = 0;
  float epsilon = 0;
};
// Rotates each head of `head_dim` by its row's position, with Program::rope_tables[table].
struct RopeOp {
  int table = 0;
  int head_dim = 0;
};
// Causal grouped-query attention. Inputs q [heads · head_dim], k and v [kv_heads · head_dim]; k and v of the
// step's rows are appended to the cache of `layer_in_group` in `kv_group` first. Output like q.
struct AttentionOp {
  int kv_group = 0;        // index into Program::kv_groups
  int layer_in_group = 0;  // in [0, num_layers of the group)
  int num_heads = 0;       // full
  int num_kv_heads = 0;    // full; divides num_heads
  int head_dim = 0;
  float scale = 1;
};
enum class Activation { kSilu };
// out = activation(gate) · up, element by element. Inputs gate, up.
struct GatedActivationOp {
  Activation activation = Activation::kSilu;
};
// out = a + b.
struct AddOp {};
// out = factor · x.
struct ScaleOp {
  float factor = 1;
};
// Keeps the rows that are sampled: from Rows::kTokens to Rows::kSampled.
struct SelectRowsOp {};

using OpKind =
    std::variant<EmbedOp, LinearOp, RmsNormOp, RopeOp, AttentionOp, GatedActivationOp, AddOp, ScaleOp, SelectRowsOp>;

// Whether the op reads tensors of the checkpoint.
bool HasParameters(const OpKind& kind);

struct Op {
  // Dotted name, "model.layers.0.self_attn.q_proj"; empty where no module does it (a residual).
  std::string module;
  OpKind kind;
  std::vector<ValueId> inputs;
  ValueId output = 0;
};

// Angle of pair i at position p is p · inv_freq[i]; cos and sin are multiplied by `scale`.
struct RopeTable {
  std::vector<float> inv_freq;  // rotary width / 2 entries
  float scale = 1;
};

// Layers whose keys and values are cached alike and share block tables.
struct KvGroup {
  int num_layers = 0;
  int num_kv_heads = 0;  // full
  int head_dim = 0;
};

struct Program {
  std::vector<Parameter> parameters;
  std::vector<Value> values;
  std::vector<Op> ops;  // in order of execution; each value is written once
  std::vector<RopeTable> rope_tables;
  std::vector<KvGroup> kv_groups;
  ValueId logits = 0;  // [sampled rows, vocabulary]
};

}  // namespace trireme::sharding
