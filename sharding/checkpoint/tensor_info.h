// What a checkpoint's header says about one tensor.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sharding/checkpoint/dtype.h"

namespace trireme::sharding {

struct TensorInfo {
  std::string name = {};  // in Checkpoint: as in Hugging Face, whatever the file's format
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};  // row-major, slowest first (a Linear is [out, in]); empty for a scalar
  int file_index = 0;                    // which of the checkpoint's files
  std::int64_t byte_offset = 0;          // from the beginning of that file
  std::int64_t byte_size = 0;
  // Set for q and k of GGUF's `llama`: within each head of so many rows, row i of Hugging Face lies in the file at row
  // 2i if i is in the head's first half, else at 2(i - half) + 1. Checkpoint::Read restores the order.
  std::optional<std::int64_t> interleaved_head_rows = {};

  std::int64_t num_elements() const;
};

// What a tensor of this shape occupies. Nothing if that is not a number of whole blocks or does not fit 63 bits.
std::optional<std::int64_t> CheckedByteSize(DType dtype, const std::vector<std::int64_t>& shape);

// "[576, 1536]".
std::string ShapeToString(const std::vector<std::int64_t>& shape);

}  // namespace trireme::sharding
