// bfloat16 products by oneDNN, for CPUs with AMX or AVX512_BF16.
//
// The weight is cut into slices of 128 columns, whatever the number of threads; each is packed once by
// oneDNN, and a thread multiplies whole slices. oneDNN runs single-threaded within: its OpenMP would start
// threads of its own, which spin, and ThreadSanitizer cannot follow them. A primitive belongs to a number of
// rows, so there is one for each power of two; a remainder is padded (DNNL_RUNTIME_DIM_VAL would fall back to
// a slow kernel without AMX).
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/product_backends.h"
#include "oneapi/dnnl/dnnl.hpp"

// libgomp's. It sets how many threads the loops started by the calling thread will have, and nothing else.
extern "C" void omp_set_num_threads(int num_threads);

namespace trireme::kernels::cpu::internal {
namespace {

using dnnl::memory;

constexpr std::int64_t kSliceColumns = 128;

// Numbers of rows with a primitive are the powers of two up to kMaxRows. Up to kMaxPaddedRows the result goes
// to a small tile first, as rows of padding must not be written to `out`; larger ones are never padded.
constexpr std::int64_t kMaxPaddedRows = 64;
constexpr std::int64_t kMaxRows = 512;
constexpr int kNumRowSizes = std::countr_zero(static_cast<std::uint64_t>(kMaxRows)) + 1;

// Rows [begin, begin + rows) done by the primitive for `padded_rows`.
struct RowPiece {
  std::int64_t rows;
  std::int64_t padded_rows;
  bool is_tiled() const { return padded_rows <= kMaxPaddedRows; }
};

RowPiece NextRowPiece(std::int64_t rows_left) {
  if (rows_left > kMaxPaddedRows) {
    const auto whole = std::bit_floor(static_cast<std::uint64_t>(std::min(rows_left, kMaxRows)));
    return {static_cast<std::int64_t>(whole), static_cast<std::int64_t>(whole)};
  }
  return {rows_left, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows_left)))};
}

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// What oneDNN needs of each thread that multiplies.
struct ThreadState {
  ThreadState() { omp_set_num_threads(1); }

  void* Scratchpad(std::size_t size_bytes) {
    if (scratchpad.size_bytes() < size_bytes) scratchpad = AlignedBuffer(size_bytes);
    return scratchpad.As<void>();
  }

  dnnl::stream stream{Engine()};
  AlignedBuffer scratchpad;
  AlignedBuffer tile{static_cast<std::size_t>(kMaxPaddedRows * kSliceColumns) * sizeof(float)};
};

ThreadState& ThisThread() {
  thread_local ThreadState state;
  return state;
}

// The primitive of one number of rows and columns, and how its operands lie.
struct SliceProduct {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;

  // `weights` says how they lie; any format lets oneDNN choose.
  SliceProduct(RowPiece piece, std::int64_t columns, std::int64_t k, std::int64_t out_stride,
               const memory::desc& weights) {
    ThisThread();  // so that it is made for one thread
    const std::int64_t m = piece.padded_rows;
    const memory::desc x({m, k}, memory::data_type::bf16, memory::dims{k, 1});
    const memory::desc out({m, columns}, memory::data_type::f32,
                           memory::dims{piece.is_tiled() ? columns : out_stride, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    description = dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, weights, out), attributes, Engine());
    primitive = dnnl::matmul(description);
  }

  void Execute(const void* x, const memory& weights, float* out) const {
    ThreadState& thread = ThisThread();
    const auto of = [](const memory::desc& d, void* data) { return memory(d, Engine(), data); };
    const memory::desc scratch = description.scratchpad_desc();
    primitive.execute(thread.stream, {{DNNL_ARG_SRC, of(description.src_desc(), const_cast<void*>(x))},
                                      {DNNL_ARG_WEIGHTS, weights},
                                      {DNNL_ARG_DST, of(description.dst_desc(), out)},
                                      {DNNL_ARG_SCRATCHPAD, of(scratch, thread.Scratchpad(scratch.get_size()))}});
    thread.stream.wait();
  }
};

memory::desc AnyLayout(std::int64_t k, std::int64_t columns) {
  return {{k, columns}, memory::data_type::bf16, memory::format_tag::any};
}

// Rows of a slice's result, to `out` with the bias.
void AddBiasTo(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, const float* bias,
               float* out, std::int64_t out_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns; ++j) {
      out[r * out_stride + j] = from[r * from_stride + j] + (bias == nullptr ? 0.0f : bias[j]);
    }
  }
}

class OneDnnProduct final : public ProductBackend {
 public:
  OneDnnProduct(const Bfloat16* weight, std::int64_t n, std::int64_t k, ThreadPool& pool) : n_(n), k_(k) {
    const std::int64_t num_slices = (n + kSliceColumns - 1) / kSliceColumns;
    for (const std::int64_t columns : {ColumnsOf(0), ColumnsOf(num_slices - 1)}) MakePrimitives(columns);
    slices_.resize(static_cast<std::size_t>(num_slices));
    packed_bytes_ = 0;
    for (std::int64_t s = 0; s < num_slices; ++s) {
      slices_[static_cast<std::size_t>(s)].offset_bytes = packed_bytes_;
      packed_bytes_ += (PackedDescription(ColumnsOf(s)).get_size() + 63) / 64 * 64;
    }
    packed_ = AlignedBuffer(packed_bytes_);
    pool.ParallelForEach(num_slices, [&](std::int64_t s) { PackSlice(weight, s); });
  }

  void Multiply(const void* x, std::int64_t rows, const float* bias, float* out, ThreadPool& pool) const override {
    pool.ParallelForEach(std::ssize(slices_), [&](std::int64_t s) {
      for (std::int64_t begin = 0; begin < rows;) {
        const RowPiece piece = NextRowPiece(rows - begin);
        MultiplySlice(static_cast<const Bfloat16*>(x) + begin * k_, piece, s, bias, out + begin * n_);
        begin += piece.rows;
      }
    });
  }

  ElementType x_type() const override { return ElementType::kBfloat16; }
  std::int64_t size_bytes() const override { return static_cast<std::int64_t>(packed_bytes_); }

 private:
  struct Slice {
    std::size_t offset_bytes = 0;
    memory weights;
  };

  std::int64_t ColumnsOf(std::int64_t slice) const { return std::min(kSliceColumns, n_ - slice * kSliceColumns); }

  void MakePrimitives(std::int64_t columns) {
    std::vector<SliceProduct>& products = products_[columns];
    if (!products.empty()) return;
    for (int i = 0; i < kNumRowSizes; ++i) {
      const std::int64_t rows = std::int64_t{1} << i;
      const memory::desc weights = i == 0 ? AnyLayout(k_, columns) : products[0].description.weights_desc();
      products.emplace_back(RowPiece{rows, rows}, columns, k_, n_, weights);
    }
  }

  const SliceProduct& ProductOf(RowPiece piece, std::int64_t columns) const {
    return products_.at(
        columns)[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(piece.padded_rows)))];
  }
  memory::desc PackedDescription(std::int64_t columns) const {
    return products_.at(columns)[0].description.weights_desc();
  }

  void PackSlice(const Bfloat16* weight, std::int64_t s) {
    Slice& slice = slices_[static_cast<std::size_t>(s)];
    const std::int64_t columns = ColumnsOf(s);
    // [columns, k] as it comes, seen as [k, columns].
    const memory::desc plain({k_, columns}, memory::data_type::bf16, memory::dims{1, k_});
    memory from(plain, Engine(), const_cast<Bfloat16*>(weight + s * kSliceColumns * k_));
    slice.weights = memory(PackedDescription(columns), Engine(), packed_.As<std::byte>() + slice.offset_bytes);
    dnnl::stream& stream = ThisThread().stream;
    dnnl::reorder(from, slice.weights).execute(stream, from, slice.weights);
    stream.wait();
  }

  void MultiplySlice(const Bfloat16* x, RowPiece piece, std::int64_t s, const float* bias, float* out) const {
    const std::int64_t columns = ColumnsOf(s), column = s * kSliceColumns;
    const memory& weights = slices_[static_cast<std::size_t>(s)].weights;
    const float* slice_bias = bias == nullptr ? nullptr : bias + column;
    float* tile = ThisThread().tile.As<float>();
    float* to = out + column;
    ProductOf(piece, columns).Execute(x, weights, piece.is_tiled() ? tile : to);
    if (piece.is_tiled()) {
      AddBiasTo(tile, columns, piece.rows, columns, slice_bias, to, n_);
    } else if (bias != nullptr) {
      AddBiasTo(to, n_, piece.rows, columns, slice_bias, to, n_);
    }
  }

  const std::int64_t n_;
  const std::int64_t k_;
  std::map<std::int64_t, std::vector<SliceProduct>> products_;  // by columns, then by log2 of rows
  std::vector<Slice> slices_;
  AlignedBuffer packed_;
  std::size_t packed_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ProductBackend> MakeOneDnnProduct(const Matrix& weight, ThreadPool& pool) {
  CHECK(weight.type == ElementType::kBfloat16) << "oneDNN multiplies bfloat16 weights only";
  return std::make_unique<OneDnnProduct>(static_cast<const Bfloat16*>(weight.data), weight.rows, weight.columns, pool);
}

}  // namespace trireme::kernels::cpu::internal
