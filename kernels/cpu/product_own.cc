// Our own product: for float32 everywhere, and for bfloat16 where the CPU has no arithmetic for it.
//
// A weight is packed in panels of 32 columns (rows of the [n, k] original), and within a panel by k: so at
// any moment a tile of the result reads one stream of the weight, and a product of one row is a plain read of
// memory. A tile is up to 12 rows (as many as registers allow) by one panel; each of its sums is a chain over
// k from 0, whatever the tile's shape. That is what makes rows invariant, and why k is not divided.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
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

// A tile of the result: rows [0, rows) of x by one panel. `columns` is less than kPanelColumns in the last
// panel.
struct Tile {
  const float* x;
  const float* bias;  // of the panel's first column, or null
  float* out;         // likewise
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t k;
  std::int64_t out_stride;
};

}  // namespace
}  // namespace trireme::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr int kVectors = static_cast<int>(kPanelColumns / kLanes);  // of a panel's row
constexpr int kMaxTileRows = kVectors == 2 ? 12 : 3;                // 24 sums of 32 registers, or 12 of 16

// One k of a panel. Vectors [0, kVectors / 2) hold the panel's columns from 0, the others those from
// kHalfPanel.
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

HWY_INLINE void StoreTileRow(const FloatVector* sums, const Tile& tile, float* out) {
  if (tile.columns == kPanelColumns) {
    HWY_UNROLL(8)
    for (int i = 0; i < kVectors; ++i) {
      const FloatVector sum =
          tile.bias == nullptr ? sums[i] : hn::Add(sums[i], hn::LoadU(kFloatTag, tile.bias + i * kLanes));
      hn::StoreU(sum, kFloatTag, out + i * kLanes);
    }
    return;
  }
  alignas(64) float lanes[kPanelColumns];
  HWY_UNROLL(8)
  for (int i = 0; i < kVectors; ++i) hn::Store(sums[i], kFloatTag, lanes + i * kLanes);
  for (std::int64_t j = 0; j < tile.columns; ++j) {
    out[j] = tile.bias == nullptr ? lanes[j] : lanes[j] + tile.bias[j];
  }
}

template <typename Weight, int kRows>
void MultiplyTileOf(const Tile& tile, const Weight* panel) {
  FloatVector sums[kRows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int i = 0; i < kVectors; ++i) sums[r][i] = hn::Zero(kFloatTag);
  }
  const float* x = tile.x;
  for (std::int64_t k = 0; k < tile.k; ++k) {
    const PanelRow weight = LoadPanelRow(panel + k * kPanelColumns);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      const FloatVector factor = hn::Set(kFloatTag, x[r * tile.k + k]);
      HWY_UNROLL(8)
      for (int i = 0; i < kVectors; ++i) sums[r][i] = hn::MulAdd(factor, weight.v[i], sums[r][i]);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) StoreTileRow(sums[r], tile, tile.out + r * tile.out_stride);
}

template <typename Weight, std::size_t... kIndex>
constexpr auto TileFunctions(std::index_sequence<kIndex...>) {
  return std::array{
      &MultiplyTileOf<Weight, static_cast<int>(kIndex) + 1>...};  // by the number of rows, from 1
}

// Any number of rows, cut evenly, so that none of the cuts is much thinner than the others.
template <typename Weight>
HWY_INLINE void MultiplyRows(const Tile& all, const Weight* panel) {
  static constexpr auto kFunctions = TileFunctions<Weight>(std::make_index_sequence<kMaxTileRows>());
  const std::int64_t num_tiles = (all.rows + kMaxTileRows - 1) / kMaxTileRows;
  for (std::int64_t t = 0; t < num_tiles; ++t) {
    const std::int64_t begin = all.rows * t / num_tiles, end = all.rows * (t + 1) / num_tiles;
    Tile tile = all;
    tile.x += begin * all.k;
    tile.out += begin * all.out_stride;
    kFunctions[static_cast<std::size_t>(end - begin - 1)](tile, panel);
  }
}

void MultiplyFloatPanel(const Tile& tile, const float* panel) { MultiplyRows(tile, panel); }
void MultiplyBfloat16Panel(const Tile& tile, const Bfloat16* panel) { MultiplyRows(tile, panel); }

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu::internal {
namespace {

HWY_EXPORT(MultiplyFloatPanel);
HWY_EXPORT(MultiplyBfloat16Panel);

void MultiplyPanel(const Tile& tile, const float* panel) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloatPanel)(tile, panel);
}
void MultiplyPanel(const Tile& tile, const Bfloat16* panel) {
  HWY_DYNAMIC_DISPATCH(MultiplyBfloat16Panel)(tile, panel);
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

  void Multiply(const void* x, std::int64_t rows, const float* bias, float* out,
                ThreadPool& pool) const override {
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
        MultiplyPanel(TileOf(static_cast<const float*>(x), row, row_end, p, bias, out), Panel(p));
      }
    });
  }

  ElementType x_type() const override { return ElementType::kFloat32; }
  std::int64_t size_bytes() const override { return static_cast<std::int64_t>(packed_.size_bytes()); }
  std::string_view implementation() const override { return "own"; }

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

  Tile TileOf(const float* x, std::int64_t row, std::int64_t row_end, std::int64_t p, const float* bias,
              float* out) const {
    const std::int64_t column = p * kPanelColumns;
    return {.x = x + row * k_,
            .bias = bias == nullptr ? nullptr : bias + column,
            .out = out + row * n_ + column,
            .rows = row_end - row,
            .columns = std::min(kPanelColumns, n_ - column),
            .k = k_,
            .out_stride = n_};
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
