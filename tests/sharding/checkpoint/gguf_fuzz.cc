#include "sharding/checkpoint/gguf.h"

#include "sharding/checkpoint/gguf_llama.h"
#include "sharding/checkpoint/gguf_tokenizer_metadata.h"
#include "tests/sharding/checkpoint/exercise_tensor.h"
#include "tests/support/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme::sharding;
  const MemoryBytes file(std::as_bytes(std::span(data, size)));
  const auto header = ParseGguf(file);
  if (!header.ok()) {
    CHECK(!header.status().message().empty());
    return 0;
  }
  for (const TensorInfo& tensor : header->tensors) ExerciseTensor(file, tensor);
  if (const auto tokenizer = TokenizerFromGguf(header->metadata); tokenizer.ok() && tokenizer->has_value()) {
    for (const std::uint32_t id : EndOfGenerationIds(**tokenizer)) CHECK_LT(id, (*tokenizer)->tokens.size());
  }
  const auto config = LlamaConfig(*header);
  if (!config.ok()) return 0;
  CHECK(!config->dump().empty());  // throws if a string in it is not UTF-8
  if (const auto tensors = LlamaTensors(*header); tensors.ok()) {
    for (const TensorInfo& tensor : *tensors) ExerciseTensor(file, tensor);
  }
  return 0;
}
