// Which part of each parameter a rank holds: a step of the layout compiler (compile.h).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sharding/program/compiled_program.h"
#include "sharding/program/layout.h"
#include "sharding/strategy/strategy.h"

namespace trireme::sharding {

// A parameter under a module's strategy.
struct CutParameter {
  LocalParameterId id = 0;
  std::optional<int> dim;  // the dimension that is cut; none if every rank holds all
  bool strided = false;
  Parts parts;  // of `dim`

  // The layout of features that run along the cut dimension.
  Layout FeatureLayout() const;
};

// Fills CompiledProgram::parameters. Not thread-safe.
class LocalParameters {
 public:
  // The arguments must outlive this object.
  LocalParameters(const Program& program, AxisCutter& cutter, ProblemList& problems, CompiledProgram& out);

  struct Use {
    ParameterId parameter = 0;
    std::string_view module;
    const Strategy& strategy;
    bool is_bias = false;
    bool is_embedding = false;
  };
  // Cuts as the strategy says. Nothing if that is impossible: the problem is noted.
  std::optional<CutParameter> Cut(const Use& use);

  // All of a parameter, or of a vector the elements in `part`.
  LocalParameterId AddWhole(ParameterId parameter);
  LocalParameterId AddPartOfVector(ParameterId parameter, const Layout& layout);

 private:
  absl::StatusOr<CutParameter> TryCut(const Use& use);
  std::vector<Intervals> WholeSlices(ParameterId parameter) const;
  // The same part of the same tensor is one local parameter, whoever uses it.
  LocalParameterId FindOrAdd(ParameterId parameter, Placement placement, std::vector<Intervals> slices);

  const Program& program_;
  AxisCutter& cutter_;
  ProblemList& problems_;
  CompiledProgram& out_;
  std::map<ParameterId, std::vector<LocalParameterId>> locals_of_;
};

}  // namespace trireme::sharding
