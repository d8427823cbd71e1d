#include "sharding/describe.h"

#include <set>
#include <utility>

namespace trireme::sharding {
namespace {

using nlohmann::json;

// Norms and biases are float32 whatever the weights are.
constexpr int kVectorElementBytes = 4;

class Describer {
 public:
  Describer(const CompiledProgram& program, ElementBytes bytes) : program_(program), bytes_(bytes) {}

  ProgramDescription Describe() && {
    for (const LocalOp& op : program_.ops) {
      for (const UsedParameter& used : ParametersOf(op.kind)) AddParameter(op, used);
      if (const auto kind = CollectiveName(op.kind)) AddCollective(op, *kind);
    }
    for (const LocalKvGroup& group : program_.kv_groups) {
      const std::int64_t keys_and_values = 2;
      out_.kv_cache_bytes_per_token +=
          keys_and_values * group.num_layers * group.num_kv_heads * group.head_dim * bytes_.kv_cache;
    }
    out_.rank = program_.rank;
    out_.activation_bytes_per_token = program_.arena_width * static_cast<std::int64_t>(sizeof(float));
    out_.logits_vocabulary = program_.logits_vocabulary;
    out_.vocabulary = program_.vocabulary;
    return std::move(out_);
  }

 private:
  void AddParameter(const LocalOp& op, const UsedParameter& used) {
    const LocalParameter& parameter = program_.parameters[used.id];
    const int element_bytes = used.as == UsedAs::kVector ? kVectorElementBytes : bytes_.weights;
    ParameterDescription description{.name = parameter.name,
                                     .placement = ToString(parameter.placement),
                                     .full_shape = parameter.full_shape,
                                     .local_shape = parameter.local_shape(),
                                     .slices = parameter.slices,
                                     .local_bytes = parameter.num_elements() * element_bytes,
                                     .shared = !read_.insert(used.id).second};
    ModuleDescription& module = ModuleOf(op);
    if (held_.insert({used.id, used.as}).second) {
      module.local_bytes += description.local_bytes;
      out_.weight_bytes += description.local_bytes;
      const bool replicated = std::holds_alternative<Replicate>(parameter.placement);
      out_.replicated_weight_bytes += replicated ? description.local_bytes : 0;
    }
    module.parameters.push_back(std::move(description));
  }

  // A row-parallel bias comes some ops after its weight.
  ModuleDescription& ModuleOf(const LocalOp& op) {
    for (auto module = out_.modules.rbegin(); module != out_.modules.rend(); ++module) {
      if (module->module == op.module) return *module;
    }
    out_.modules.push_back({.module = op.module, .strategy = op.strategy, .parameters = {}, .local_bytes = 0});
    return out_.modules.back();
  }

  void AddCollective(const LocalOp& op, std::string kind) {
    // A gather's whole row is its output, a reduction's its input.
    const bool gathers = std::holds_alternative<AllGather>(op.kind);
    const LocalValue& whole = program_.values[gathers ? op.output : op.inputs[0]];
    out_.collectives.push_back(
        {.kind = std::move(kind), .module = op.module, .features = whole.width, .rows = whole.rows});
  }

  const CompiledProgram& program_;
  const ElementBytes bytes_;
  ProgramDescription out_;
  std::set<LocalParameterId> read_;
  std::set<std::pair<LocalParameterId, UsedAs>> held_;
};

json ToJson(const Interval& interval) { return json::array({interval.begin, interval.end}); }

json ToJson(const ParameterDescription& parameter) {
  json slices = json::array();
  for (const Intervals& intervals : parameter.slices) {
    json dimension = json::array();
    for (const Interval& interval : intervals) dimension.push_back(ToJson(interval));
    slices.push_back(std::move(dimension));
  }
  return {{"name", parameter.name},
          {"placement", parameter.placement},
          {"full_shape", parameter.full_shape},
          {"local_shape", parameter.local_shape},
          {"slices", std::move(slices)},
          {"local_bytes", parameter.local_bytes},
          {"shared", parameter.shared}};
}

json ToJson(const ModuleDescription& module) {
  json parameters = json::array();
  for (const ParameterDescription& parameter : module.parameters) parameters.push_back(ToJson(parameter));
  return {{"module", module.module},
          {"strategy", module.strategy},
          {"parameters", std::move(parameters)},
          {"local_bytes", module.local_bytes}};
}

json ToJson(const CollectiveDescription& collective) {
  return {{"kind", collective.kind},
          {"module", collective.module},
          {"features", collective.features},
          {"rows", collective.rows == Rows::kTokens ? "tokens" : "sampled"}};
}

}  // namespace

ProgramDescription Describe(const CompiledProgram& program, ElementBytes bytes) {
  return Describer(program, bytes).Describe();
}

json ToJson(const ProgramDescription& description) {
  json modules = json::array(), collectives = json::array();
  for (const ModuleDescription& module : description.modules) modules.push_back(ToJson(module));
  for (const CollectiveDescription& collective : description.collectives) collectives.push_back(ToJson(collective));
  return {{"rank", description.rank.index},
          {"tp_degree", description.rank.world},
          {"modules", std::move(modules)},
          {"collectives", std::move(collectives)},
          {"weight_bytes", description.weight_bytes},
          {"replicated_weight_bytes", description.replicated_weight_bytes},
          {"kv_cache_bytes_per_token", description.kv_cache_bytes_per_token},
          {"activation_bytes_per_token", description.activation_bytes_per_token},
          {"logits_vocabulary", ToJson(description.logits_vocabulary)},
          {"vocabulary", description.vocabulary}};
}

}  // namespace trireme::sharding
