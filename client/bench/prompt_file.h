// Prompts of a workload that are not made up.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace trireme::client {

struct FilePrompt {
  std::variant<std::string, std::vector<std::uint32_t>> prompt = {};  // text, or token ids
  std::optional<std::uint32_t> output_tokens = {};                    // else the workload's
};

// JSON lines: {"prompt": "text"} or {"prompt": [token ids]}, and "output_tokens": N if wanted. Empty lines are skipped.
// NotFound if there is no such file; InvalidArgument names file, line and what is wrong with it, or says that there is
// no prompt in it.
absl::StatusOr<std::vector<FilePrompt>> ReadPromptFile(const std::string& path);

}  // namespace trireme::client
