// Plain descriptions of the memory that kernels read and write. Nothing here owns memory.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace trireme::kernels {

// How weights and the KV cache are stored. Activations are float32 on the CPU.
enum class ElementType { kFloat32, kBfloat16 };

constexpr std::int64_t ElementBytes(ElementType type) { return type == ElementType::kFloat32 ? 4 : 2; }

// The high half of a float32.
struct Bfloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(Bfloat16, Bfloat16) = default;
};

inline float ToFloat(Bfloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

// Rounds to nearest, ties to even. A NaN stays a (quiet) NaN, values beyond the range become infinite.
inline Bfloat16 ToBfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

// A row-major, contiguous [rows, dim] of float32.
struct RowsByDim {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
};

// A row-major, contiguous [rows, columns] of `type`. `data` may be null where there are no elements, and
// needs only the alignment of its elements.
struct Matrix {
  const void* data = nullptr;
  ElementType type = ElementType::kFloat32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

}  // namespace trireme::kernels
