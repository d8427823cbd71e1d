// JSON objects in files, of a checkpoint's folder and of plans.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"

namespace trireme::sharding {

// Parses one JSON object in which no key comes twice, at any depth: nlohmann keeps the last of two, and which is meant
// is not ours to guess.
//
// InvalidArgument: not JSON (with the position), not an object, a key twice.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text);

// Parses a file of at most `max_bytes` that holds one JSON object in which no key comes twice, and adds its
// size to `bytes_read`.
//
// NotFound and so on from opening; InvalidArgument, with the path: too long, or as ParseJsonObject.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::filesystem::path& path, std::int64_t max_bytes,
                                              std::int64_t& bytes_read);

}  // namespace trireme::sharding
