#include "sharding/checkpoint/gguf_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/gguf_llama.h"

namespace trireme::sharding {
namespace {

nlohmann::json GenerationConfig(const GgufTokenizerMetadata& tokenizer) {
  nlohmann::json config = {{"eos_token_id", EndOfGenerationIds(tokenizer)}};
  if (tokenizer.bos_id.has_value()) config["bos_token_id"] = *tokenizer.bos_id;
  return config;
}

absl::Status AddTensors(const GgufHeader& header, CheckpointContents& contents) {
  ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors, LlamaTensors(header));
  for (TensorInfo& tensor : tensors) {
    const std::string name = tensor.name;
    contents.tensors.emplace(name, std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status Interpret(const GgufHeader& header, CheckpointContents& contents) {
  ASSIGN_OR_RETURN(contents.config, LlamaConfig(header));
  RETURN_IF_ERROR(AddTensors(header, contents));
  ASSIGN_OR_RETURN(contents.gguf_tokenizer, TokenizerFromGguf(header.metadata));
  if (contents.gguf_tokenizer.has_value()) contents.generation_config = GenerationConfig(*contents.gguf_tokenizer);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointContents> OpenGgufFile(const std::filesystem::path& path) {
  CheckpointContents contents;
  ASSIGN_OR_RETURN(auto file, FileBytes::Open(path));
  ASSIGN_OR_RETURN(const GgufHeader header, ParseGguf(*file));
  contents.header_bytes_read = file->bytes_read();
  const absl::Status status = Interpret(header, contents);
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(file->name(), ": ", status.message()));
  contents.files.push_back(std::move(file));
  return contents;
}

}  // namespace trireme::sharding
