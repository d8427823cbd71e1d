// Plans as JSON: {"model.layers.*.mlp.down_proj": "rowwise", …}.
#pragma once
#include <filesystem>
#include <string_view>

#include "absl/status/statusor.h"
#include "sharding/plan/plan.h"

namespace trireme::sharding {

// InvalidArgument: not an object, a key twice, a value that is not a strategy's name. An object {"style":
// name} is the same as the name; its other options (input_layout, blocks, …) are refused by name.
absl::StatusOr<Plan> ParsePlan(std::string_view json_text);

// Reads a plan file of at most a MiB. NotFound: no such file; other errors as ParsePlan, with the path.
absl::StatusOr<Plan> ReadPlanFile(const std::filesystem::path& path);

}  // namespace trireme::sharding
