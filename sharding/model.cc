#include "sharding/model.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "sharding/families/build_decoder.h"
#include "sharding/families/families.h"
#include "sharding/tensor_check.h"

namespace trireme::sharding {
namespace {

absl::Status WithPath(const absl::Status& status, const std::filesystem::path& path) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path.string(), ": ", std::string(status.message())));
}

// GGUF has llama3's scaling of rope as a tensor of divisors, and no key that tells it.
absl::Status DivideRopeTables(const Checkpoint& checkpoint, std::vector<RopeTable>& tables) {
  const TensorInfo* divisors = checkpoint.FindTensor(kRopeDivisors);
  if (divisors == nullptr) return absl::OkStatus();
  for (RopeTable& table : tables) {
    const std::vector<std::int64_t> wanted = {static_cast<std::int64_t>(table.inv_freq.size())};
    if (divisors->shape != wanted) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", kRopeDivisors, " is ", ShapeToString(divisors->shape),
                                                     ", not ", ShapeToString(wanted)));
    }
    std::vector<float> values(table.inv_freq.size());
    RETURN_IF_ERROR(checkpoint.ReadWhole(kRopeDivisors, DType::kF32, values.data()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!(values[i] > 0) || std::isinf(values[i])) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", kRopeDivisors, " has ", values[i], " at ", i, ", not a number above 0"));
      }
      table.inv_freq[i] /= values[i];
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Model> MakeModel(std::unique_ptr<const Checkpoint> checkpoint, const StrategyRegistry& registry,
                                const Plan& user_plan) {
  Model model;
  ASSIGN_OR_RETURN(const Family* family, FindFamily(checkpoint->config()));
  ASSIGN_OR_RETURN(model.spec, family->spec_from_config(checkpoint->config()));
  RETURN_IF_ERROR(DivideRopeTables(*checkpoint, model.spec.rope_tables));
  model.program = BuildDecoder(model.spec);
  RETURN_IF_ERROR(CheckTensors(model.program, model.spec, checkpoint->tensors()));
  model.family_has_plan = family->plan != nullptr;
  const Plan built_in = model.family_has_plan ? family->plan(model.spec) : Plan();
  ASSIGN_OR_RETURN(model.plan, ResolvedPlan::Resolve(MergePlans(built_in, user_plan), model.program, registry));
  model.valid_tp_degrees = ValidTpDegrees(model.program, model.plan, kMaxTpDegree);
  model.checkpoint = std::move(checkpoint);
  return model;
}

}  // namespace

absl::StatusOr<Model> OpenModel(const std::filesystem::path& path, const StrategyRegistry& registry,
                                const Plan& user_plan) {
  ASSIGN_OR_RETURN(std::unique_ptr<const Checkpoint> checkpoint, Checkpoint::Open(path));
  absl::StatusOr<Model> model = MakeModel(std::move(checkpoint), registry, user_plan);
  if (!model.ok()) return WithPath(model.status(), path);
  return model;
}

std::vector<std::string> TpDegreeProblems(const Model& model, int tp_degree) {
  if (tp_degree < 1 || tp_degree > kMaxTpDegree) return {absl::StrCat("it is not from 1 to ", kMaxTpDegree)};
  const absl::Status status = Compile(model.program, model.plan, {.index = 0, .world = tp_degree}).status();
  return absl::StrSplit(status.message(), '\n', absl::SkipEmpty());
}

absl::Status CheckTpDegree(const Model& model, int tp_degree) {
  const std::vector<std::string> problems = TpDegreeProblems(model, tp_degree);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tp_degree ", tp_degree, " does not fit the model:\n  ",
                                                 absl::StrJoin(problems, "\n  "),
                                                 "\nvalid tp_degree: ", absl::StrJoin(model.valid_tp_degrees, ", ")));
}

}  // namespace trireme::sharding
