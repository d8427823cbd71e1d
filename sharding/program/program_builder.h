// Emits a Program op by op. Builders (families/build_decoder.h) call it as they would write the formulas.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "sharding/program/program.h"

namespace trireme::sharding {

// Used once: emit, then Finish. A parameter is named after its module: "<module>.weight", "<module>.bias".
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::vector<RopeTable> rope_tables);

  ValueId Embed(std::string_view module, Axis vocabulary, const Axis& hidden);
  // Weight [out, features of x].
  ValueId Linear(std::string_view module, ValueId x, Axis out, bool bias);
  // A Linear without bias whose weight is a parameter that exists already, of another module (a tied head).
  ValueId TiedLinear(std::string_view module, ValueId x, std::string_view weight_name);
  ValueId RmsNorm(std::string_view module, ValueId x, float epsilon);
  ValueId Rope(std::string_view module, ValueId x, int table, int head_dim);

  struct AttentionShape {
    int num_heads = 0;
    int num_kv_heads = 0;
    int head_dim = 0;
    float scale = 1;
  };
  // Takes the next layer of the KV group of this shape.
  ValueId Attention(std::string_view module, ValueId q, ValueId k, ValueId v, const AttentionShape& shape);
  ValueId GatedActivation(std::string_view module, ValueId gate, ValueId up, Activation activation);

  // No module does these. `name` is that of the sum.
  ValueId Add(std::string name, ValueId a, ValueId b);
  ValueId Scale(ValueId x, float factor);
  ValueId SelectRows(ValueId x);

  Program Finish(ValueId logits) &&;

 private:
  ParameterId AddParameter(std::string name, std::vector<Axis> axes);
  int KvGroupFor(const AttentionShape& shape);
  const Value& value(ValueId id) const { return program_.values[id]; }
  ValueId Emit(std::string_view module, std::string name, const OpKind& kind, std::vector<ValueId> inputs,
               Axis features);

  Program program_;
  std::map<std::string, ParameterId, std::less<>> parameter_ids_;
};

}  // namespace trireme::sharding
