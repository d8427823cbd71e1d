// Element types of checkpoints: what safetensors files hold, and the block types of GGUF.
#pragma once
#include <cstdint>
#include <string_view>

namespace trireme::sharding {

enum class DType {
  // Plain numbers.
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kC64,
  // Small floats; those of less than a byte are packed.
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kF6E2M3,
  kF6E3M2,
  kF4,
  // GGUF blocks: scales and quants of 32 or 256 neighbours in a row.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

// A block is the smallest group of elements that starts and ends on whole bytes; 1 element for most types.
struct DTypeTraits {
  std::string_view name;  // as safetensors or GGUF spells it: "BF16", "F8_E4M3", "Q4_K"
  std::int64_t block_elements = 1;
  std::int64_t block_bytes = 1;
};

const DTypeTraits& TraitsOf(DType dtype);

// True for the types that Checkpoint::Read turns into float32 and bfloat16: F32, F16, BF16 and the GGUF blocks.
bool IsReadable(DType dtype);

}  // namespace trireme::sharding
