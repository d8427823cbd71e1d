#include "sharding/tensor_check.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace trireme::sharding {
namespace {

std::vector<std::int64_t> ShapeOf(const Parameter& parameter) {
  std::vector<std::int64_t> shape;
  for (const Axis& axis : parameter.axes) shape.push_back(axis.extent());
  return shape;
}

bool IsHarmless(const DecoderSpec& spec, std::string_view name) {
  if (name == kRopeDivisors) return true;
  // Tied: some files store the embedding a second time. Transformers does not look at it either.
  if (spec.tied_head && name == spec.names.head + ".weight") return true;
  return std::any_of(spec.harmless_tensors.begin(), spec.harmless_tensors.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

// Problems by kind.
struct Findings {
  std::vector<std::string> missing, unknown, misshapen, unreadable;

  absl::Status ToStatus() const {
    std::vector<std::string> lines;
    const auto add = [&](std::string_view what, const std::vector<std::string>& names) {
      if (!names.empty()) lines.push_back(absl::StrCat(std::string(what), ": ", absl::StrJoin(names, ", ")));
    };
    add("missing tensors", missing);
    add("unknown tensors", unknown);
    add("tensors of a wrong shape", misshapen);
    add("tensors of an element type that is not supported", unreadable);
    return lines.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
  }
};

void CheckParameter(const Parameter& parameter, const std::map<std::string, TensorInfo>& tensors, Findings& findings) {
  const auto found = tensors.find(parameter.name);
  if (found == tensors.end()) {
    findings.missing.push_back(parameter.name);
    return;
  }
  const TensorInfo& tensor = found->second;
  if (const std::vector<std::int64_t> wanted = ShapeOf(parameter); tensor.shape != wanted) {
    findings.misshapen.push_back(
        absl::StrCat(parameter.name, " is ", ShapeToString(tensor.shape), ", not ", ShapeToString(wanted)));
  }
  if (!IsReadable(tensor.dtype)) {
    findings.unreadable.push_back(absl::StrCat(parameter.name, " is ", std::string(TraitsOf(tensor.dtype).name)));
  }
}

}  // namespace

absl::Status CheckTensors(const Program& program, const DecoderSpec& spec,
                          const std::map<std::string, TensorInfo>& tensors) {
  Findings findings;
  std::set<std::string_view> known;
  for (const Parameter& parameter : program.parameters) {
    known.insert(parameter.name);
    CheckParameter(parameter, tensors, findings);
  }
  for (const auto& [name, tensor] : tensors) {
    if (known.count(name) == 0 && !IsHarmless(spec, name)) findings.unknown.push_back(name);
  }
  return findings.ToStatus();
}

}  // namespace trireme::sharding
