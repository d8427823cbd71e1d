#include "sharding/checkpoint/dequantize.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "sharding/checkpoint/float_formats.h"

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian and are read as they are");

namespace trireme::sharding {
namespace {

using Bytes = const std::uint8_t*;

template <typename T>
T Load(Bytes at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

float Half(Bytes at) { return Float16ToFloat(Load<std::uint16_t>(at)); }

// Quants of 4 bits: the low halves of 16 bytes are elements 0..15, the high halves are elements 16..31.
void DequantizeQ4_0(Bytes block, float* out) {
  const float d = Half(block);
  const Bytes q = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((q[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
  }
}

void DequantizeQ4_1(Bytes block, float* out) {
  const float d = Half(block);
  const float m = Half(block + 2);
  const Bytes q = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(q[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(q[i] >> 4) + m;
  }
}

// As Q4_0, with a fifth bit per element in a word of 32.
void DequantizeQ5_0(Bytes block, float* out) {
  const float d = Half(block);
  const auto high = Load<std::uint32_t>(block + 2);
  const Bytes q = block + 6;
  for (int i = 0; i < 16; ++i) {
    const int low_element = (q[i] & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int high_element = (q[i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = d * static_cast<float>(low_element - 16);
    out[i + 16] = d * static_cast<float>(high_element - 16);
  }
}

void DequantizeQ8_0(Bytes block, float* out) {
  const float d = Half(block);
  const Bytes q = block + 2;
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(q[i]));
}

struct ScaleAndMin {
  float scale = 0;
  float min = 0;
};

// Q4_K and Q5_K begin with d, dmin and twelve bytes that hold eight scales and eight minima of six bits.
ScaleAndMin SubBlockScale(Bytes block, int sub_block) {
  const Bytes s = block + 4;
  const int j = sub_block;
  const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
  const int min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  return {Half(block) * static_cast<float>(scale), Half(block + 2) * static_cast<float>(min)};
}

// Sub-blocks 2k and 2k+1 are the low and the high halves of the same 32 bytes.
void DequantizeQ4_K(Bytes block, float* out) {
  for (int j = 0; j < 8; ++j) {
    const auto [scale, min] = SubBlockScale(block, j);
    const Bytes q = block + 16 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int l = 0; l < 32; ++l) out[32 * j + l] = scale * static_cast<float>((q[l] >> shift) & 15) - min;
  }
}

// As Q4_K; bit j of high[l] is the fifth bit of element l of sub-block j.
void DequantizeQ5_K(Bytes block, float* out) {
  const Bytes high = block + 16;
  for (int j = 0; j < 8; ++j) {
    const auto [scale, min] = SubBlockScale(block, j);
    const Bytes q = block + 48 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int l = 0; l < 32; ++l) {
      const int quant = ((q[l] >> shift) & 15) + 16 * ((high[l] >> j) & 1);
      out[32 * j + l] = scale * static_cast<float>(quant) - min;
    }
  }
}

// Four low bits in `ql`, two high bits in `qh`; a signed scale for every 16 elements. Elements come in two
// halves of four groups of 32.
void DequantizeQ6_K(Bytes block, float* out) {
  const float d = Half(block + 208);
  for (int half = 0; half < 2; ++half) {
    for (int group = 0; group < 4; ++group) {
      const Bytes ql = block + 64 * half + 32 * (group % 2);
      const Bytes qh = block + 128 + 32 * half;
      const Bytes scales = block + 192 + 8 * half + 2 * group;
      float* to = out + 128 * half + 32 * group;
      for (int l = 0; l < 32; ++l) {
        const int low = group < 2 ? ql[l] & 15 : ql[l] >> 4;
        const int high = (qh[l] >> (2 * group)) & 3;
        const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[l / 16]));
        to[l] = scale * static_cast<float>((low | high << 4) - 32);
      }
    }
  }
}

template <typename Block>
void ForEachBlock(DType dtype, Bytes blocks, std::int64_t num_blocks, float* out, Block dequantize) {
  const DTypeTraits& traits = TraitsOf(dtype);
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    dequantize(blocks + b * traits.block_bytes, out + b * traits.block_elements);
  }
}

template <typename Convert>
void ConvertHalves(Bytes from, std::int64_t count, float* out, Convert convert) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = convert(Load<std::uint16_t>(from + 2 * i));
}

}  // namespace

void Dequantize(DType dtype, const std::byte* blocks, std::int64_t num_blocks, float* out) {
  CHECK(IsReadable(dtype)) << " " << TraitsOf(dtype).name;
  const Bytes from = reinterpret_cast<Bytes>(blocks);
  const auto each = [&](auto dequantize) { ForEachBlock(dtype, from, num_blocks, out, dequantize); };
  if (num_blocks == 0) return;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, from, static_cast<std::size_t>(num_blocks) * sizeof(float));
      return;
    case DType::kF16:
      return ConvertHalves(from, num_blocks, out, Float16ToFloat);
    case DType::kBF16:
      return ConvertHalves(from, num_blocks, out, BFloat16ToFloat);
    case DType::kQ4_0:
      return each(DequantizeQ4_0);
    case DType::kQ4_1:
      return each(DequantizeQ4_1);
    case DType::kQ5_0:
      return each(DequantizeQ5_0);
    case DType::kQ8_0:
      return each(DequantizeQ8_0);
    case DType::kQ4_K:
      return each(DequantizeQ4_K);
    case DType::kQ5_K:
      return each(DequantizeQ5_K);
    case DType::kQ6_K:
      return each(DequantizeQ6_K);
    default:
      return;  // excluded by the CHECK
  }
}

}  // namespace trireme::sharding
