// The metadata part of a GGUF header.
#pragma once
#include <cstdint>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/gguf.h"
#include "sharding/checkpoint/gguf_cursor.h"

namespace trireme::sharding {

// The next `count` keys with their values. InvalidArgument: an empty key, one that comes twice, an unknown
// type, an array of arrays, whatever goes beyond the file.
absl::StatusOr<GgufMetadata> ReadGgufMetadata(GgufCursor& cursor, std::int64_t count);

}  // namespace trireme::sharding
