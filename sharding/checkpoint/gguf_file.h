// A GGUF file as a checkpoint.
#pragma once
#include <filesystem>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/checkpoint.h"

namespace trireme::sharding {

// Opens `path` as Checkpoint::Open says. Unimplemented for an architecture other than `llama`.
absl::StatusOr<CheckpointContents> OpenGgufFile(const std::filesystem::path& path);

}  // namespace trireme::sharding
