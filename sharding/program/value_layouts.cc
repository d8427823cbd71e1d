#include "sharding/program/value_layouts.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace trireme::sharding {

ValueLayouts::ValueLayouts(const Program& program, LocalParameters& parameters, ProblemList& problems,
                           CompiledProgram& out)
    : program_(program), parameters_(parameters), problems_(problems), out_(out), tracked_(program.values.size()) {}

void ValueLayouts::Define(Definition definition) {
  const ValueId value = definition.op.output;
  Tracked& tracked = tracked_[value];
  CHECK(tracked.versions.empty()) << program_.values[value].name << " is written twice";
  tracked.module = definition.op.module;
  tracked.strategy = std::string(definition.strategy);
  tracked.pending_biases = std::move(definition.pending_biases);
  const ValueId local = NewLocal(value, definition.layout, "");
  out_.ops.push_back({.module = tracked.module,
                      .strategy = tracked.strategy,
                      .kind = std::move(definition.kind),
                      .inputs = std::move(definition.local_inputs),
                      .output = local});
  tracked.versions = {{.local = local, .layout = std::move(definition.layout)}};
}

void ValueLayouts::AssumeReplicated(ValueId value) {
  CHECK(!problems_.empty()) << program_.values[value].name << " was not compiled, and nobody said why";
  tracked_[value].versions = {{.local = NewLocal(value, Layout::Replicated(), ""), .layout = Layout::Replicated()}};
}

bool ValueLayouts::HasLayout(ValueId value, const Layout& layout) const { return Find(value, layout) != nullptr; }

std::optional<ValueId> ValueLayouts::In(ValueId value, const Layout& wanted, std::string_view user) {
  CHECK(IsDefined(value)) << program_.values[value].name;
  if (const Version* version = Find(value, wanted)) return version->local;
  const Version* replicated = Find(value, Layout::Replicated());
  const Version from = replicated != nullptr ? *replicated : tracked_[value].versions.front();
  if (from.layout.is_partial() && !wanted.is_partial()) return Reduce(value, wanted);
  if (from.layout.is_cut() && wanted.is_replicated()) return Gather(value, from);
  if (from.layout.is_replicated() && wanted.is_cut()) return Slice(value, from, wanted);
  const bool same_kind = from.layout.placement == wanted.placement;
  problems_.Add(user, absl::StrCat("wants its input as ", ToString(wanted.placement), ", and it is given as ",
                                   ToString(from.layout.placement), same_kind ? " that is cut at other places" : "",
                                   "; nothing leads from one to the other"));
  return std::nullopt;
}

void ValueLayouts::Settle(ValueId value, const Layout& wanted, std::string_view user) {
  const std::optional<ValueId> local = In(value, wanted, user);
  if (local.has_value()) tracked_[value].versions = {{.local = *local, .layout = wanted}};
}

ValueId ValueLayouts::Reduce(ValueId value, const Layout& wanted) {
  const ValueId partial = tracked_[value].versions.front().local;
  const ValueId sum = wanted.is_replicated()
                          ? EmitConversion(value, AllReduce{}, partial, wanted, ".sum")
                          : EmitConversion(value, ReduceScatter{.parts = *wanted.parts}, partial, wanted, ".sum");
  const ValueId complete = AddPendingBiases(value, sum, wanted);
  // The sum takes the summand's place in memory, so nothing may use the summand any more.
  tracked_[value].versions = {{.local = complete, .layout = wanted}};
  return complete;
}

ValueId ValueLayouts::AddPendingBiases(ValueId value, ValueId local, const Layout& layout) {
  for (const PendingBias& pending : tracked_[value].pending_biases) {
    const LocalParameterId bias = parameters_.AddPartOfVector(pending.bias, layout);
    const ValueId biased = NewLocal(value, layout, ".biased");
    out_.ops.push_back({.module = pending.module,
                        .strategy = pending.strategy,
                        .kind = LocalAddBias{.bias = bias},
                        .inputs = {local},
                        .output = biased});
    local = biased;
  }
  tracked_[value].pending_biases.clear();
  return local;
}

ValueId ValueLayouts::Gather(ValueId value, const Version& from) {
  const Layout whole = Layout::Replicated();
  const ValueId local = EmitConversion(value, AllGather{.parts = *from.layout.parts}, from.local, whole, ".gathered");
  tracked_[value].versions.push_back({.local = local, .layout = whole});
  return local;
}

ValueId ValueLayouts::Slice(ValueId value, const Version& from, const Layout& wanted) {
  const Intervals& part = (*wanted.parts)[out_.rank.index];
  const ValueId local = EmitConversion(value, LocalSlice{.part = part}, from.local, wanted, ".slice");
  tracked_[value].versions.push_back({.local = local, .layout = wanted});
  return local;
}

ValueId ValueLayouts::EmitConversion(ValueId value, LocalOpKind kind, ValueId input, const Layout& layout,
                                     std::string_view suffix) {
  const ValueId local = NewLocal(value, layout, suffix);
  out_.ops.push_back({.module = tracked_[value].module,
                      .strategy = tracked_[value].strategy,
                      .kind = std::move(kind),
                      .inputs = {input},
                      .output = local});
  return local;
}

ValueId ValueLayouts::NewLocal(ValueId value, const Layout& layout, std::string_view suffix) {
  const Value& full = program_.values[value];
  out_.values.push_back({.name = absl::StrCat(full.name, std::string(suffix)),
                         .rows = full.rows,
                         .width = layout.Width(full.features.extent(), out_.rank.index),
                         .placement = layout.placement});
  return static_cast<ValueId>(out_.values.size()) - 1;
}

const ValueLayouts::Version* ValueLayouts::Find(ValueId value, const Layout& layout) const {
  for (const Version& version : tracked_[value].versions) {
    if (version.layout == layout) return &version;
  }
  return nullptr;
}

}  // namespace trireme::sharding
