#include "sharding/checkpoint/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <vector>

#include "sharding/checkpoint/gguf.h"
#include "sharding/checkpoint/safetensors.h"
#include "tests/sharding/checkpoint/checkpoint_files.h"

namespace trireme::sharding {
namespace {

std::vector<std::byte> Bytes(const FileBytes& file, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.byte_size));
  EXPECT_TRUE(file.ReadAt(tensor.byte_offset, bytes).ok());
  return bytes;
}

std::vector<std::uint32_t> Bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

// tests/fixtures/gguf/make.py fills blocks with random bytes and lets gguf.quants.dequantize say what they are.
TEST(Dequantize, EveryTypeIsBitEqualWithTheReference) {
  const auto quantized = *FileBytes::Open(Fixture("gguf/blocks.gguf"));
  const auto expected = *FileBytes::Open(Fixture("gguf/blocks.safetensors"));
  std::map<std::string, TensorInfo> floats;
  const auto expected_header = ParseSafetensors(*expected);
  ASSERT_TRUE(expected_header.ok()) << expected_header.status();
  for (const TensorInfo& tensor : expected_header->tensors) floats[tensor.name] = tensor;
  const auto header = ParseGguf(*quantized);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 10u);
  for (const TensorInfo& tensor : header->tensors) {
    SCOPED_TRACE(tensor.name);
    EXPECT_EQ(TraitsOf(tensor.dtype).name, tensor.name);
    EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{3, 768}));
    std::vector<float> want(3 * 768);
    std::memcpy(want.data(), Bytes(*expected, floats.at(tensor.name)).data(), want.size() * sizeof(float));
    std::vector<float> got(want.size());
    const std::int64_t num_blocks = tensor.num_elements() / TraitsOf(tensor.dtype).block_elements;
    Dequantize(tensor.dtype, Bytes(*quantized, tensor).data(), num_blocks, got.data());
    EXPECT_EQ(Bits(got), Bits(want));
  }
}

TEST(Dequantize, NoBlocksWriteNothing) {
  float untouched = 7;
  Dequantize(DType::kQ6_K, nullptr, 0, &untouched);
  Dequantize(DType::kF32, nullptr, 0, &untouched);
  EXPECT_EQ(untouched, 7);
}

TEST(Dequantize, BlocksNeedNoAlignment) {
  const float value = 1.5f;
  std::byte bytes[5];
  std::memcpy(bytes + 1, &value, 4);
  float got = 0;
  Dequantize(DType::kF32, bytes + 1, 1, &got);
  EXPECT_EQ(got, 1.5f);
}

TEST(DequantizeDeathTest, OtherTypesAreOurMistake) {
  std::byte byte{};
  float out = 0;
  EXPECT_DEATH(Dequantize(DType::kU8, &byte, 1, &out), "U8");
}

}  // namespace
}  // namespace trireme::sharding
