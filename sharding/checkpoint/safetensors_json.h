// The JSON of a safetensors header, parsed as a stream: what does not belong there ends the parse at once, so
// that a hostile file cannot make a document of it that is many times its size.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/dtype.h"

namespace trireme::sharding {

struct SafetensorsEntry {
  std::string name = {};
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};                     // each >= 0; at most 64
  std::pair<std::int64_t, std::int64_t> data_offsets = {};  // as written: each >= 0, otherwise unchecked
};

struct SafetensorsJson {
  std::vector<SafetensorsEntry> entries;  // in the order of the text, names unique
  std::map<std::string, std::string> metadata;
};

// InvalidArgument: not JSON, not UTF-8, not an object of entries {dtype, shape, data_offsets}, an unknown dtype, a
// number that is negative or no integer, a name or field that comes twice. Fields besides the three are skipped.
absl::StatusOr<SafetensorsJson> ParseSafetensorsJson(std::string_view text);

}  // namespace trireme::sharding
