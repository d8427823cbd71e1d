// JSON files of a checkpoint's folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"

namespace trireme::sharding {

// Parses a file of at most `max_bytes` that holds one JSON object in which no key comes twice, and adds its
// size to `bytes_read`.
//
// NotFound and so on from opening; InvalidArgument, with the path: too long, not JSON, not an object.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::filesystem::path& path, std::int64_t max_bytes,
                                              std::int64_t& bytes_read);

}  // namespace trireme::sharding
