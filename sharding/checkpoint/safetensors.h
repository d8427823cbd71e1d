// The header of a safetensors file: u64 N (little-endian), N bytes of JSON, data.
//
// As strict as the reference, and stricter in one point: a name that comes twice is refused. Nothing of the
// data is read. No number is used, and no memory set aside, before it was checked against the file's size.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/byte_source.h"
#include "sharding/checkpoint/tensor_info.h"

namespace trireme::sharding {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              // in the order of their data; file_index is 0
  std::map<std::string, std::string> metadata;  // `__metadata__`
  std::int64_t data_offset = 0;                 // of the data section, from the beginning of the file
};

// InvalidArgument, naming the file, the tensor, what was got and what would be right: a header that is too
// long, not JSON, not UTF-8 or not of the shape above; an unknown dtype; shapes and offsets that do not
// agree; data that the tensors do not cover exactly (holes, overlaps, a file too short or too long).
absl::StatusOr<SafetensorsHeader> ParseSafetensors(const ByteSource& file);

}  // namespace trireme::sharding
