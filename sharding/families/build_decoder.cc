#include "sharding/families/build_decoder.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "sharding/program/program_builder.h"

namespace trireme::sharding {
namespace {

Axis HiddenAxis(std::int64_t hidden) { return SingleBlock(hidden, 1, Division::kUneven, "hidden features"); }

Axis QueryAxis(const AttentionSpec& spec) {
  return SingleBlock(std::int64_t{spec.num_heads} * spec.head_dim, spec.head_dim, Division::kEven, "query heads");
}

Axis KvAxis(const AttentionSpec& spec) {
  return SingleBlock(std::int64_t{spec.num_kv_heads} * spec.head_dim, spec.head_dim, Division::kEvenOrReplicated,
                     "KV heads");
}

Axis IntermediateAxis(const MlpSpec& spec) {
  return SingleBlock(spec.intermediate, 1, Division::kUneven, "intermediate features");
}

class DecoderBuilder {
 public:
  explicit DecoderBuilder(const DecoderSpec& spec)
      : spec_(spec), hidden_(HiddenAxis(spec.hidden)), program_(spec.rope_tables) {}

  Program Build() && {
    const Axis vocabulary = SingleBlock(spec_.vocabulary, 1, Division::kUneven, "vocabulary");
    ValueId h = program_.Embed(spec_.names.embed, vocabulary, hidden_);
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
      h = BuildLayer(absl::StrCat(spec_.names.layers, ".", i, "."), spec_.layers[i], h);
    }
    h = program_.SelectRows(h);
    h = program_.RmsNorm(spec_.names.final_norm, h, spec_.final_norm.epsilon);
    const ValueId logits = spec_.tied_head ? program_.TiedLinear(spec_.names.head, h, spec_.names.embed + ".weight")
                                           : program_.Linear(spec_.names.head, h, vocabulary, /*bias=*/false);
    return std::move(program_).Finish(logits);
  }

 private:
  // h += attention(norm(h)); h += mlp(norm(h)).
  ValueId BuildLayer(const std::string& layer, const LayerSpec& spec, ValueId h) {
    const ValueId x = program_.RmsNorm(layer + spec_.names.attention_norm, h, spec.attention_norm.epsilon);
    h = program_.Add(layer + spec_.names.attention + ".residual", h, BuildAttention(layer, spec.attention, x));
    const ValueId y = program_.RmsNorm(layer + spec_.names.mlp_norm, h, spec.mlp_norm.epsilon);
    return program_.Add(layer + spec_.names.mlp + ".residual", h, BuildMlp(layer, spec.mlp, y));
  }

  // o(attention(rope(q(x)), rope(k(x)), v(x))).
  ValueId BuildAttention(const std::string& layer, const AttentionSpec& spec, ValueId x) {
    const std::string module = layer + spec_.names.attention;
    const Qkv projected = BuildQkv(layer, spec, x);
    const ValueId q = program_.Rope(module, projected.q, spec.rope_table, spec.head_dim);
    const ValueId k = program_.Rope(module, projected.k, spec.rope_table, spec.head_dim);
    const ValueId mixed = program_.Attention(module, q, k, projected.v,
                                             {.num_heads = spec.num_heads,
                                              .num_kv_heads = spec.num_kv_heads,
                                              .head_dim = spec.head_dim,
                                              .scale = spec.scale});
    return program_.Linear(layer + spec_.names.o, mixed, hidden_, spec.output_bias);
  }

  struct Qkv {
    ValueId q = 0, k = 0, v = 0;
  };
  Qkv BuildQkv(const std::string& layer, const AttentionSpec& spec, ValueId x) {
    Qkv qkv;
    switch (spec.packing) {
      case QkvPacking::kSeparate:
        qkv.q = program_.Linear(layer + spec_.names.q, x, QueryAxis(spec), spec.qkv_bias);
        qkv.k = program_.Linear(layer + spec_.names.k, x, KvAxis(spec), spec.qkv_bias);
        qkv.v = program_.Linear(layer + spec_.names.v, x, KvAxis(spec), spec.qkv_bias);
    }
    return qkv;
  }

  // down(activation(gate(x)) · up(x)).
  ValueId BuildMlp(const std::string& layer, const MlpSpec& spec, ValueId x) {
    const GateUp projected = BuildGateUp(layer, spec, x);
    const ValueId activated =
        program_.GatedActivation(layer + spec_.names.mlp, projected.gate, projected.up, spec.activation);
    return program_.Linear(layer + spec_.names.down, activated, hidden_, spec.bias);
  }

  struct GateUp {
    ValueId gate = 0, up = 0;
  };
  GateUp BuildGateUp(const std::string& layer, const MlpSpec& spec, ValueId x) {
    GateUp gate_up;
    switch (spec.packing) {
      case MlpPacking::kSeparate:
        gate_up.gate = program_.Linear(layer + spec_.names.gate, x, IntermediateAxis(spec), spec.bias);
        gate_up.up = program_.Linear(layer + spec_.names.up, x, IntermediateAxis(spec), spec.bias);
    }
    return gate_up;
  }

  const DecoderSpec& spec_;
  const Axis hidden_;
  ProgramBuilder program_;
};

}  // namespace

Program BuildDecoder(const DecoderSpec& spec) { return DecoderBuilder(spec).Build(); }

}  // namespace trireme::sharding
