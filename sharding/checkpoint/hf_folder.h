// A Hugging Face folder: config.json, generation_config.json and safetensors files.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/checkpoint.h"

namespace trireme::sharding {

// Opens `folder` as Checkpoint::Open says. With an index: each file it names must lie in the folder and exist, and hold
// exactly the tensors that the index says. model.safetensors comes before an index, as in Transformers.
absl::StatusOr<CheckpointContents> OpenHfFolder(const std::filesystem::path& folder);

// Tensor → file, from the JSON of an index. InvalidArgument: no `weight_map` of strings, a file name that is
// empty or leaves the folder.
absl::StatusOr<std::map<std::string, std::string>> ParseSafetensorsIndex(const nlohmann::json& index);

}  // namespace trireme::sharding
