// Where the values of a program are laid out on the ranks, and the collectives between layouts: a step of the
// layout compiler (compile.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sharding/program/compiled_program.h"
#include "sharding/program/layout.h"
#include "sharding/program/local_parameters.h"

namespace trireme::sharding {

// A row-parallel bias that waits for its sum to be complete.
struct PendingBias {
  ParameterId bias = 0;
  std::string module;
  std::string strategy;
};

// Fills CompiledProgram::ops and ::values. A value of the program may come to lie in several layouts, each a
// local value of its own: what was gathered once is not gathered again. Not thread-safe.
class ValueLayouts {
 public:
  // The arguments must outlive this object.
  ValueLayouts(const Program& program, LocalParameters& parameters, ProblemList& problems, CompiledProgram& out);

  struct Definition {
    const Op& op;
    std::string_view strategy;  // may be empty
    LocalOpKind kind;
    std::vector<ValueId> local_inputs;
    Layout layout;
    std::vector<PendingBias> pending_biases;  // of a Partial
  };
  // Emits the op that computes `op.output` in `layout`.
  void Define(Definition definition);

  bool IsDefined(ValueId value) const { return !tracked_[value].versions.empty(); }

  // Defines a value whose op could not be compiled, so that what follows can be looked at. A problem was noted.
  void AssumeReplicated(ValueId value);

  // The layout in which the value was first defined, or the one it was reduced to. REQUIRES: IsDefined.
  const Layout& LayoutOf(ValueId value) const { return tracked_[value].versions.front().layout; }
  bool HasLayout(ValueId value, const Layout& layout) const;
  const std::vector<PendingBias>& PendingBiases(ValueId value) const { return tracked_[value].pending_biases; }

  // The local value that holds `value` as `wanted`; emits what leads there. Nothing if there is no way: the
  // problem is noted for `user`, the module that wants it. A Partial that is reduced is gone afterwards.
  // REQUIRES: IsDefined(value).
  std::optional<ValueId> In(ValueId value, const Layout& wanted, std::string_view user);

  // As In, and the value has no other layout from then on.
  void Settle(ValueId value, const Layout& wanted, std::string_view user);

 private:
  struct Version {
    ValueId local = 0;
    Layout layout;
  };
  struct Tracked {
    std::vector<Version> versions;  // a Partial is the only one
    std::vector<PendingBias> pending_biases;
    std::string module;  // of the producer
    std::string strategy;
  };

  ValueId Reduce(ValueId value, const Layout& wanted);
  ValueId AddPendingBiases(ValueId value, ValueId local, const Layout& layout);
  ValueId Gather(ValueId value, const Version& from);
  ValueId Slice(ValueId value, const Version& from, const Layout& wanted);
  ValueId EmitConversion(ValueId value, LocalOpKind kind, ValueId input, const Layout& layout, std::string_view suffix);
  ValueId NewLocal(ValueId value, const Layout& layout, std::string_view suffix);
  const Version* Find(ValueId value, const Layout& layout) const;

  const Program& program_;
  LocalParameters& parameters_;
  ProblemList& problems_;
  CompiledProgram& out_;
  std::vector<Tracked> tracked_;  // by the program's value
};

}  // namespace trireme::sharding
