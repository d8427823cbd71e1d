// An opened checkpoint: a Hugging Face folder of safetensors files, or a GGUF file.
//
// Goals: only headers are read to open it; a rank then reads the bytes of its own slices and no others,
// counted; names, order of rows and config are those of Hugging Face, whatever the file's format. Non-goals:
// tensor parallelism (callers say which intervals), devices, caching.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/byte_source.h"
#include "sharding/checkpoint/gguf_tokenizer_metadata.h"
#include "sharding/checkpoint/tensor_info.h"
#include "sharding/placement/interval.h"

namespace trireme::sharding {

// What the formats (hf_folder.h, gguf_file.h) find by reading headers.
struct CheckpointContents {
  std::vector<std::unique_ptr<FileBytes>> files;  // TensorInfo::file_index points here
  std::map<std::string, TensorInfo> tensors;
  nlohmann::json config;
  nlohmann::json generation_config = nlohmann::json::object();
  std::optional<GgufTokenizerMetadata> gguf_tokenizer;
  std::int64_t header_bytes_read = 0;
};

// Immutable but for the counters: all methods may be called from any number of threads at once.
class Checkpoint {
 public:
  // `model` is a folder (config.json with model.safetensors, or model.safetensors.index.json and its shards;
  // generation_config.json if there is one) or a .gguf file.
  //
  // NotFound: no such file, a missing shard. InvalidArgument: anything malformed. Unimplemented: a GGUF
  // architecture or tensor type that is not supported. Messages name the file, the tensor or key, what was
  // got and what would be right.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::filesystem::path& model);

  explicit Checkpoint(CheckpointContents contents);

  // By Hugging Face's names: "model.layers.3.self_attn.q_proj.weight".
  const std::map<std::string, TensorInfo>& tensors() const { return contents_.tensors; }
  const TensorInfo* FindTensor(const std::string& name) const;  // null if there is none

  // config.json; for GGUF made from its metadata in the same spelling.
  const nlohmann::json& config() const { return contents_.config; }

  // generation_config.json or {}. For GGUF: `eos_token_id` (a list: all ids that end a generation) and `bos_token_id`.
  const nlohmann::json& generation_config() const { return contents_.generation_config; }

  // Null for Hugging Face folders, and for GGUF files without a tokenizer.
  const GgufTokenizerMetadata* gguf_tokenizer() const;

  // Sums of the lengths asked of pread: by Open, and by Read since.
  std::int64_t header_bytes_read() const { return contents_.header_bytes_read; }
  std::int64_t tensor_bytes_read() const;

  // Reads the elements of `name` whose index lies in slices[d] along every dimension d, in row-major order,
  // into `out`: float for DType::kF32, bfloat16 (rounded to nearest even) for DType::kBF16. `slices` has one
  // list per dimension, as in placement/interval.h; `out` has room for the product of their total sizes. Asks
  // for exactly the bytes of these elements, or of the blocks that hold them if the tensor is quantized.
  //
  // NotFound: no such tensor. InvalidArgument: slices that do not fit its shape. Unimplemented: a dtype that
  // is not IsReadable. OutOfRange: the file has shrunk. Other codes: what pread said.
  absl::Status Read(const std::string& name, std::span<const Intervals> slices, DType as, void* out) const;

  // All of the tensor.
  absl::Status ReadWhole(const std::string& name, DType as, void* out) const;

 private:
  CheckpointContents contents_;
  std::int64_t file_bytes_read_at_open_ = 0;
};

// One interval per dimension that covers it all.
std::vector<Intervals> WholeTensor(const std::vector<std::int64_t>& shape);

}  // namespace trireme::sharding
