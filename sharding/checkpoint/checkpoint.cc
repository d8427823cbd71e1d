#include "sharding/checkpoint/checkpoint.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/error_text.h"
#include "sharding/checkpoint/gguf_file.h"
#include "sharding/checkpoint/hf_folder.h"
#include "sharding/checkpoint/read_plan.h"
#include "sharding/checkpoint/tensor_reader.h"

namespace trireme::sharding {
namespace {

std::int64_t BytesRead(const std::vector<std::unique_ptr<FileBytes>>& files) {
  std::int64_t sum = 0;
  for (const auto& file : files) sum += file->bytes_read();
  return sum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::filesystem::path& model) {
  std::error_code ignored;  // what is no folder is opened as a file, and that reports what is wrong with it
  const bool is_folder = std::filesystem::is_directory(model, ignored);
  ASSIGN_OR_RETURN(CheckpointContents contents, is_folder ? OpenHfFolder(model) : OpenGgufFile(model));
  return std::make_unique<Checkpoint>(std::move(contents));
}

Checkpoint::Checkpoint(CheckpointContents contents)
    : contents_(std::move(contents)), file_bytes_read_at_open_(BytesRead(contents_.files)) {}

const TensorInfo* Checkpoint::FindTensor(const std::string& name) const {
  const auto found = contents_.tensors.find(name);
  return found == contents_.tensors.end() ? nullptr : &found->second;
}

const GgufTokenizerMetadata* Checkpoint::gguf_tokenizer() const {
  return contents_.gguf_tokenizer.has_value() ? &*contents_.gguf_tokenizer : nullptr;
}

std::int64_t Checkpoint::tensor_bytes_read() const { return BytesRead(contents_.files) - file_bytes_read_at_open_; }

absl::Status Checkpoint::Read(const std::string& name, std::span<const Intervals> slices, DType as, void* out) const {
  const TensorInfo* tensor = FindTensor(name);
  if (tensor == nullptr) return absl::NotFoundError(absl::StrCat("the checkpoint has no tensor ", Quoted(name)));
  RETURN_IF_ERROR(CheckSlices(*tensor, slices));
  if (!IsReadable(tensor->dtype)) {
    return absl::UnimplementedError(absl::StrCat("tensor ", Quoted(name), " has dtype ",
                                                 std::string(TraitsOf(tensor->dtype).name),
                                                 ", which cannot be read as floats"));
  }
  const FileBytes& file = *contents_.files[static_cast<std::size_t>(tensor->file_index)];
  return ReadRuns(file, *tensor, PlanRead(*tensor, slices), as, out);
}

absl::Status Checkpoint::ReadWhole(const std::string& name, DType as, void* out) const {
  const TensorInfo* tensor = FindTensor(name);
  if (tensor == nullptr) return absl::NotFoundError(absl::StrCat("the checkpoint has no tensor ", Quoted(name)));
  return Read(name, WholeTensor(tensor->shape), as, out);
}

std::vector<Intervals> WholeTensor(const std::vector<std::int64_t>& shape) {
  std::vector<Intervals> whole;
  for (const std::int64_t extent : shape) whole.push_back({{0, extent}});
  return whole;
}

}  // namespace trireme::sharding
