#include "sharding/program/local_parameters.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::sharding {
namespace {

// The dimension that a placement cuts; none for Replicate.
absl::StatusOr<std::optional<int>> CutDimension(const Placement& placement, int num_dims) {
  std::optional<int> dim;
  if (const Shard* shard = std::get_if<Shard>(&placement)) dim = shard->dim;
  if (const StridedShard* shard = std::get_if<StridedShard>(&placement)) dim = shard->dim;
  if (dim.has_value() && *dim < 0) dim = *dim + num_dims;
  const bool possible = dim.has_value() ? *dim >= 0 && *dim < num_dims : std::holds_alternative<Replicate>(placement);
  if (possible) return dim;
  return absl::InvalidArgumentError(
      absl::StrCat("a parameter of ", num_dims, " dimensions cannot be placed as ", ToString(placement)));
}

}  // namespace

Layout CutParameter::FeatureLayout() const {
  if (!dim.has_value()) return Layout::Replicated();
  return strided ? Layout::Strided(parts) : Layout::Sharded(parts);
}

LocalParameters::LocalParameters(const Program& program, AxisCutter& cutter, ProblemList& problems,
                                 CompiledProgram& out)
    : program_(program), cutter_(cutter), problems_(problems), out_(out) {}

std::optional<CutParameter> LocalParameters::Cut(const Use& use) {
  absl::StatusOr<CutParameter> cut = TryCut(use);
  if (cut.ok()) return *std::move(cut);
  problems_.Add(use.module, std::string(cut.status().message()));
  return std::nullopt;
}

absl::StatusOr<CutParameter> LocalParameters::TryCut(const Use& use) {
  const Parameter& parameter = program_.parameters[use.parameter];
  const ParameterRole role{.parameter = parameter, .is_bias = use.is_bias, .is_embedding = use.is_embedding};
  RETURN_IF_ERROR(use.strategy.ValidateParameter(role, out_.rank.world));
  const Placement placement = out_.rank.world == 1 ? Replicate{} : use.strategy.ShardParameter(role);
  ASSIGN_OR_RETURN(const std::optional<int> dim, CutDimension(placement, static_cast<int>(parameter.axes.size())));
  CutParameter cut{.dim = dim, .strided = std::holds_alternative<StridedShard>(placement), .parts = nullptr};
  std::vector<Intervals> slices = WholeSlices(use.parameter);
  if (dim.has_value()) {
    ASSIGN_OR_RETURN(cut.parts, cutter_.Cut(parameter.axes[*dim], cut.strided));
    slices[*dim] = (*cut.parts)[out_.rank.index];
  }
  cut.id = FindOrAdd(use.parameter, placement, std::move(slices));
  return cut;
}

LocalParameterId LocalParameters::AddWhole(ParameterId parameter) {
  return FindOrAdd(parameter, Replicate{}, WholeSlices(parameter));
}

LocalParameterId LocalParameters::AddPartOfVector(ParameterId parameter, const Layout& layout) {
  CHECK_EQ(program_.parameters[parameter].axes.size(), 1u) << program_.parameters[parameter].name;
  if (!layout.is_cut()) return AddWhole(parameter);
  return FindOrAdd(parameter, layout.placement, {(*layout.parts)[out_.rank.index]});
}

std::vector<Intervals> LocalParameters::WholeSlices(ParameterId parameter) const {
  std::vector<Intervals> slices;
  for (const Axis& axis : program_.parameters[parameter].axes) slices.push_back(Whole(axis.extent()));
  return slices;
}

LocalParameterId LocalParameters::FindOrAdd(ParameterId parameter, Placement placement, std::vector<Intervals> slices) {
  for (const LocalParameterId id : locals_of_[parameter]) {
    if (out_.parameters[id].slices == slices) return id;
  }
  const LocalParameterId id = static_cast<LocalParameterId>(out_.parameters.size());
  LocalParameter local{.name = program_.parameters[parameter].name,
                       .full_shape = {},
                       .slices = std::move(slices),
                       .placement = placement};
  for (const Axis& axis : program_.parameters[parameter].axes) local.full_shape.push_back(axis.extent());
  out_.parameters.push_back(std::move(local));
  locals_of_[parameter].push_back(id);
  return id;
}

}  // namespace trireme::sharding
