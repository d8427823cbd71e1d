#include "sharding/checkpoint/safetensors.h"
#include "tests/sharding/checkpoint/exercise_tensor.h"
#include "tests/support/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme::sharding;
  const MemoryBytes file(std::as_bytes(std::span(data, size)));
  const auto header = ParseSafetensors(file);
  if (!header.ok()) {
    CHECK(!header.status().message().empty());
    return 0;
  }
  std::int64_t end = header->data_offset;
  for (const TensorInfo& tensor : header->tensors) {
    CHECK_EQ(tensor.byte_offset, end);
    end += tensor.byte_size;
    ExerciseTensor(file, tensor);
  }
  CHECK_EQ(end, file.size());
  return 0;
}
