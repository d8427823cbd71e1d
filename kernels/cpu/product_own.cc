// Our own product: for float32 everywhere, and for bfloat16 where the CPU has no arithmetic for it.
//
// A weight is packed in panels of 32 columns (rows of the [n, k] original), and within a panel by k: so at
// any moment a tile of the result reads one stream of the weight, and a product of one row is a plain read of
// memory. A tile is up to 12 rows (as many as registers allow) by one panel; each of its sums is a chain over
// k from 0, whatever the tile's shape. That is what makes rows invariant.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "kernels/cpu/product_backends.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/product_own.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vectors-inl.h"

#ifndef TRIREME_KERNELS_CPU_PRODUCT_OWN_ONCE_
#define TRIREME_KERNELS_CPU_PRODUCT_OWN_ONCE_
namespace trireme::kernels::cpu {
namespace {

constexpr std::int64_t kPanelColumns = 32;
constexpr std::int64_t kHalfPanel = kPanelColumns / 2;

// Some rows of x by one panel.
struct PanelProduct {
  const float* x;  // [rows, k]
  std::int64_t rows;
  std::int64_t k;
  float* sums;  // [rows, kPanelColumns], aligned
};

}  // namespace
}  // namespace trireme::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr int kVectors = static_cast<int>(kPanelColumns / kLanes);  // of a panel's row
constexpr int kMaxTileRows = kVectors == 2 ? 12 : 3;                // 24 sums of 32 registers, or 12 of 16

// One k of a panel. Vectors [0, kVectors / 2) hold the panel's columns from 0, the others those from kHalfPanel.
struct PanelRow {
  FloatVector v[kVectors];
};

HWY_INLINE PanelRow LoadPanelRow(const float* p) {
  PanelRow row;
  HWY_UNROLL(8)
  for (int i = 0; i < kVectors; ++i) row.v[i] = hn::Load(kFloatTag, p + i * kLanes);
  return row;
}

// Columns c and c + kHalfPanel lie side by side, so that widening is a shift and a mask.
HWY_INLINE PanelRow LoadPanelRow(const Bfloat16* p) {
  const hn::RebindToUnsigned<FloatTag> tag;
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(p);
  PanelRow row;
  HWY_UNROLL(8)
  for (int i = 0; i < kVectors / 2; ++i) {
    const auto both = hn::Load(tag, pairs + i * kLanes);
    row.v[i] = hn::BitCast(kFloatTag, hn::ShiftLeft<16>(both));
    row.v[kVectors / 2 + i] = hn::BitCast(kFloatTag, hn::And(both, hn::Set(tag, 0xffff0000u)));
  }
  return row;
}

// The sums of kRows rows.
template <typename Weight, int kRows>
void MultiplyTile(const float* x, const Weight* panel, std::int64_t depth, float* out) {
  FloatVector sums[kRows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int i = 0; i < kVectors; ++i) sums[r][i] = hn::Zero(kFloatTag);
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const PanelRow weight = LoadPanelRow(panel + k * kPanelColumns);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      const FloatVector factor = hn::Set(kFloatTag, x[r * depth + k]);
      HWY_UNROLL(8)
      for (int i = 0; i < kVectors; ++i) sums[r][i] = hn::MulAdd(factor, weight.v[i], sums[r][i]);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int i = 0; i < kVectors; ++i) hn::Store(sums[r][i], kFloatTag, out + r * kPanelColumns + i * kLanes);
  }
}

// By the number of rows, from 1.
template <typename Weight, std::size_t... kIndex>
constexpr auto TileFunctions(std::index_sequence<kIndex...>) {
  return std::array{&MultiplyTile<Weight, static_cast<int>(kIndex) + 1>...};
}

// Rows are cut evenly into tiles, so that none is much thinner than the others.
template <typename Weight>
HWY_INLINE void MultiplyRows(const PanelProduct& product, const Weight* panel) {
  static constexpr auto kFunctions = TileFunctions<Weight>(std::make_index_sequence<kMaxTileRows>());
  const std::int64_t num_tiles = (product.rows + kMaxTileRows - 1) / kMaxTileRows;
  for (std::int64_t t = 0; t < num_tiles; ++t) {
    const std::int64_t begin = product.rows * t / num_tiles, end = product.rows * (t + 1) / num_tiles;
    kFunctions[static_cast<std::size_t>(end - begin - 1)](product.x + begin * product.k, panel, product.k,
                                                          product.sums + begin * kPanelColumns);
  }
}

void MultiplyFloats(const PanelProduct& product, const float* panel) { MultiplyRows(product, panel); }
void MultiplyBfloat16s(const PanelProduct& product, const Bfloat16* panel) { MultiplyRows(product, panel); }

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu::internal {
namespace {

HWY_EXPORT(MultiplyFloats);
HWY_EXPORT(MultiplyBfloat16s);

void MultiplyByPanel(const PanelProduct& product, const float* panel) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloats)(product, panel);
}
void MultiplyByPanel(const PanelProduct& product, const Bfloat16* panel) {
  HWY_DYNAMIC_DISPATCH(MultiplyBfloat16s)(product, panel);
}

// Where column c of a panel lies in each of its rows.
std::int64_t PlaceInPanel(std::int64_t c, const float*) { return c; }
std::int64_t PlaceInPanel(std::int64_t c, const Bfloat16*) { return 2 * (c % kHalfPanel) + c / kHalfPanel; }

template <typename Weight>
class OwnProduct final : public ProductBackend {
 public:
  OwnProduct(const Weight* weight, std::int64_t n, std::int64_t k, ThreadPool& pool)
      : n_(n),
        k_(k),
        num_panels_((n + kPanelColumns - 1) / kPanelColumns),
        packed_(static_cast<std::size_t>(num_panels_ * kPanelColumns * k) * sizeof(Weight)) {
    pool.ParallelFor(num_panels_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) PackPanel(weight, p);
    });
  }

  void Multiply(const void* x, std::int64_t rows, const float* bias, float* out, ThreadPool& pool) const override {
    // Pieces of work: some panels by some rows. Small enough to share out, large enough to hide the sharing;
    // pieces of the same panels follow each other, while those are in the cache.
    const std::int64_t panels =
        std::max<std::int64_t>(kMinPieceElements / std::max<std::int64_t>(k_ * kPanelColumns, 1), 1);
    const std::int64_t panel_pieces = (num_panels_ + panels - 1) / panels;
    const std::int64_t row_pieces = (rows + kPieceRows - 1) / kPieceRows;
    pool.ParallelForEach(panel_pieces * row_pieces, [&](std::int64_t piece) {
      const std::int64_t panel = piece / row_pieces * panels;
      const std::int64_t row = rows * (piece % row_pieces) / row_pieces;
      const std::int64_t row_end = rows * (piece % row_pieces + 1) / row_pieces;
      for (std::int64_t p = panel; p < std::min(panel + panels, num_panels_); ++p) {
        MultiplyPanel(static_cast<const float*>(x) + row * k_, row_end - row, p, bias, out + row * n_);
      }
    });
  }

  ElementType x_type() const override { return ElementType::kFloat32; }
  std::int64_t size_bytes() const override { return static_cast<std::int64_t>(packed_.size_bytes()); }

 private:
  static constexpr std::int64_t kMinPieceElements = 16384;
  static constexpr std::int64_t kPieceRows = 96;

  Weight* Panel(std::int64_t p) const { return packed_.As<Weight>() + p * k_ * kPanelColumns; }

  void PackPanel(const Weight* weight, std::int64_t p) {
    const std::int64_t columns = std::min(kPanelColumns, n_ - p * kPanelColumns);
    Weight* panel = Panel(p);
    if (columns < kPanelColumns) std::fill_n(panel, k_ * kPanelColumns, Weight{});
    for (std::int64_t c = 0; c < columns; ++c) {
      const Weight* from = weight + (p * kPanelColumns + c) * k_;
      Weight* to = panel + PlaceInPanel(c, panel);
      for (std::int64_t k = 0; k < k_; ++k) to[k * kPanelColumns] = from[k];
    }
  }

  // REQUIRES: rows <= kPieceRows.
  void MultiplyPanel(const float* x, std::int64_t rows, std::int64_t p, const float* bias, float* out) const {
    alignas(64) float sums[kPieceRows * kPanelColumns];
    MultiplyByPanel({.x = x, .rows = rows, .k = k_, .sums = sums}, Panel(p));
    const std::int64_t column = p * kPanelColumns;
    const std::int64_t columns = std::min(kPanelColumns, n_ - column);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* from = sums + r * kPanelColumns;
      float* to = out + r * n_ + column;
      if (bias == nullptr) {
        std::copy_n(from, columns, to);
      } else {
        std::transform(from, from + columns, bias + column, to, std::plus<>());
      }
    }
  }

  const std::int64_t n_;
  const std::int64_t k_;
  const std::int64_t num_panels_;
  const AlignedBuffer packed_;
};

}  // namespace

std::unique_ptr<ProductBackend> MakeOwnProduct(const Matrix& weight, ThreadPool& pool) {
  const auto make = [&]<typename Weight>(const Weight* data) -> std::unique_ptr<ProductBackend> {
    return std::make_unique<OwnProduct<Weight>>(data, weight.rows, weight.columns, pool);
  };
  return weight.type == ElementType::kFloat32 ? make(static_cast<const float*>(weight.data))
                                              : make(static_cast<const Bfloat16*>(weight.data));
}

}  // namespace trireme::kernels::cpu::internal
#endif  // HWY_ONCE
