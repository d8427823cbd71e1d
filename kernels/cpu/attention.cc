// A piece of work is up to 8 query rows that read the same KV head: neighbouring query tokens, and of each
// the heads that share the KV head. It walks the cache block by block: scores, then softmax, then values,
// each over all its rows while the block is in the first-level cache. All it needs lies on the stack.
//
// Rows of a piece never touch each other's numbers, and what is done to a row does not depend on how many they are.
#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "base/check.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/cpu/ragged.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vectors-inl.h"

#ifndef TRIREME_KERNELS_CPU_ATTENTION_ONCE_
#define TRIREME_KERNELS_CPU_ATTENTION_ONCE_
namespace trireme::kernels::cpu {
namespace {

constexpr int kMaxPieceRows = 8;

// One query row: a query token and a head.
struct QueryRow {
  const float* q;  // [head_dim]
  float* out;      // [head_dim]
  std::int64_t position;
};

struct Piece {
  std::array<QueryRow, kMaxPieceRows> rows;  // by position
  int num_rows;
  std::int64_t kv_head;
  const std::int32_t* block_table;
};

}  // namespace
}  // namespace trireme::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// What a row has gathered from the blocks walked so far.
struct alignas(64) RowState {
  float q[kMaxHeadDim];  // times scale
  float sum_of_values[kMaxHeadDim];
  float weights[kMaxKvBlockSize];  // of the current block: scores, then their exponentials
  float max;
  float correction;               // of what was gathered, as the maximum grew
  alignas(64) float sum[kLanes];  // of exponentials, lane by lane
};

HWY_INLINE float Widen(float v) { return v; }
HWY_INLINE float Widen(Bfloat16 v) { return ToFloat(v); }

// weights[j] = q · key_j of kRows rows, for all j of a block.
template <int kRows, typename Element>
void ScoreBlock(const Element* keys, const KvCacheShape& shape, RowState* rows) {
  const std::int64_t size = shape.block_size;
  std::int64_t j = 0;
  for (; j + kLanes <= size; j += kLanes) {
    FloatVector sums[kRows];
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) sums[r] = hn::Zero(kFloatTag);
    for (std::int64_t d = 0; d < shape.head_dim; ++d) {
      const FloatVector key = LoadVector(keys + d * size + j);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::Set(kFloatTag, rows[r].q[d]), key, sums[r]);
    }
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) hn::Store(sums[r], kFloatTag, rows[r].weights + j);
  }
  for (; j < size; ++j) {
    for (int r = 0; r < kRows; ++r) {
      float sum = 0;
      for (std::int64_t d = 0; d < shape.head_dim; ++d) sum += rows[r].q[d] * Widen(keys[d * size + j]);
      rows[r].weights[j] = sum;
    }
  }
}

// Turns the first `count` scores into exponentials under the new maximum, and the rest into zeros.
HWY_INLINE void SoftmaxBlock(std::int64_t count, RowState& row) {
  const std::int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
  for (std::int64_t j = count; j < padded; ++j) row.weights[j] = kMinusInfinity;
  FloatVector max = hn::Set(kFloatTag, row.max);
  for (std::int64_t j = 0; j < padded; j += kLanes) max = hn::Max(max, hn::Load(kFloatTag, row.weights + j));
  const FloatVector new_max = hn::MaxOfLanes(kFloatTag, max);

  const FloatVector correction = ExpOrNan(hn::Sub(hn::Set(kFloatTag, row.max), new_max));
  FloatVector sum = hn::Mul(hn::Load(kFloatTag, row.sum), correction);
  for (std::int64_t j = 0; j < padded; j += kLanes) {
    const FloatVector e = ExpOrNan(hn::Sub(hn::Load(kFloatTag, row.weights + j), new_max));
    hn::Store(e, kFloatTag, row.weights + j);
    sum = hn::Add(sum, e);
  }
  hn::Store(sum, kFloatTag, row.sum);
  row.max = hn::GetLane(new_max);
  row.correction = hn::GetLane(correction);
}

// sum_of_values = correction · sum_of_values + Σ_{j < count} weights[j] · value_j, for kRows rows.
template <int kRows, typename Element>
void GatherBlock(const Element* values, std::int64_t head_dim, std::int64_t count, RowState* rows) {
  std::int64_t d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) {
    FloatVector sums[kRows];
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      sums[r] = hn::Mul(hn::Set(kFloatTag, rows[r].correction), hn::Load(kFloatTag, rows[r].sum_of_values + d));
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const FloatVector value = LoadVector(values + j * head_dim + d);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::Set(kFloatTag, rows[r].weights[j]), value, sums[r]);
    }
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) hn::Store(sums[r], kFloatTag, rows[r].sum_of_values + d);
  }
  for (; d < head_dim; ++d) {
    for (int r = 0; r < kRows; ++r) {
      float sum = rows[r].correction * rows[r].sum_of_values[d];
      for (std::int64_t j = 0; j < count; ++j) sum += rows[r].weights[j] * Widen(values[j * head_dim + d]);
      rows[r].sum_of_values[d] = sum;
    }
  }
}

template <typename Element>
struct BlockFunctions {
  void (*score)(const Element* keys, const KvCacheShape& shape, RowState* rows);
  void (*gather)(const Element* values, std::int64_t head_dim, std::int64_t count, RowState* rows);
};

template <typename Element, std::size_t... kIndex>
constexpr auto AllBlockFunctions(std::index_sequence<kIndex...>) {
  return std::array{BlockFunctions<Element>{&ScoreBlock<static_cast<int>(kIndex) + 1, Element>,
                                            &GatherBlock<static_cast<int>(kIndex) + 1, Element>}...};
}

// By the number of rows, from 1.
template <typename Element>
constexpr auto kBlockFunctions = AllBlockFunctions<Element>(std::make_index_sequence<kMaxPieceRows>());

void BeginRow(const QueryRow& query, std::int64_t head_dim, float scale, RowState& row) {
  for (std::int64_t d = 0; d < head_dim; ++d) row.q[d] = scale * query.q[d];
  std::fill_n(row.sum_of_values, head_dim, 0.0f);
  std::fill_n(row.sum, kLanes, 0.0f);
  row.max = kMinusInfinity;
}

void EndRow(std::int64_t head_dim, const RowState& row, const QueryRow& query) {
  const float factor = 1.0f / Sum(hn::Load(kFloatTag, row.sum));
  for (std::int64_t d = 0; d < head_dim; ++d) query.out[d] = row.sum_of_values[d] * factor;
}

// Rows see the positions of a block up to their own. `begin` is the block's first position.
template <typename Element>
void WalkBlock(const Piece& piece, std::int64_t begin, const Element* keys, const Element* values,
               const KvCacheShape& shape, RowState* rows) {
  const auto seen = [&](int r) {
    return std::clamp<std::int64_t>(piece.rows[r].position + 1 - begin, 0, shape.block_size);
  };
  kBlockFunctions<Element>[piece.num_rows - 1].score(keys, shape, rows);
  for (int r = 0; r < piece.num_rows; ++r) {
    if (seen(r) > 0) SoftmaxBlock(seen(r), rows[r]);
  }
  if (seen(0) == shape.block_size) {  // rows lie by position: so all see all of it
    return kBlockFunctions<Element>[piece.num_rows - 1].gather(values, shape.head_dim, shape.block_size, rows);
  }
  for (int r = 0; r < piece.num_rows; ++r) {
    if (seen(r) > 0) GatherBlock<1>(values, shape.head_dim, seen(r), rows + r);
  }
}

template <typename Element>
HWY_INLINE void AttendPiece(const Piece& piece, const KvCache& cache, float scale) {
  const KvCacheShape& shape = cache.shape;
  RowState rows[kMaxPieceRows];
  for (int r = 0; r < piece.num_rows; ++r) BeginRow(piece.rows[r], shape.head_dim, scale, rows[r]);
  const std::int64_t last_position = piece.rows[piece.num_rows - 1].position;
  for (std::int64_t b = 0; b * shape.block_size <= last_position; ++b) {
    const std::int64_t offset = KvHeadOffset(shape, piece.block_table[b], piece.kv_head);
    WalkBlock(piece, b * shape.block_size, static_cast<const Element*>(cache.keys) + offset,
              static_cast<const Element*>(cache.values) + offset, shape, rows);
  }
  for (int r = 0; r < piece.num_rows; ++r) EndRow(shape.head_dim, rows[r], piece.rows[r]);
}

void AttendFloatPiece(const Piece& piece, const KvCache& cache, float scale) {
  AttendPiece<float>(piece, cache, scale);
}
void AttendBfloat16Piece(const Piece& piece, const KvCache& cache, float scale) {
  AttendPiece<Bfloat16>(piece, cache, scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::kernels::cpu {
namespace {

HWY_EXPORT(AttendFloatPiece);
HWY_EXPORT(AttendBfloat16Piece);

void Attend(const Piece& piece, const KvCache& cache, float scale) {
  if (cache.shape.type == ElementType::kFloat32) {
    HWY_DYNAMIC_DISPATCH(AttendFloatPiece)(piece, cache, scale);
  } else {
    HWY_DYNAMIC_DISPATCH(AttendBfloat16Piece)(piece, cache, scale);
  }
}

// How a batch is cut into pieces. Of a KV head, the query rows of a sequence are its (token, head) pairs,
// token by token.
struct Cutter {
  const AttentionRows& io;
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t head_dim;

  std::int64_t heads_per_kv_head() const { return num_heads / num_kv_heads; }
  std::int64_t PiecesPerKvHead(const SequenceRows& sequence) const {
    return (sequence.num_queries * heads_per_kv_head() + kMaxPieceRows - 1) / kMaxPieceRows;
  }

  QueryRow RowOf(const SequenceRows& sequence, std::int64_t kv_head, std::int64_t index) const {
    const std::int64_t token = index / heads_per_kv_head();
    const std::int64_t head = kv_head * heads_per_kv_head() + index % heads_per_kv_head();
    const std::int64_t row = sequence.query_begin + token;
    return {.q = io.q + row * io.q_row_stride + head * head_dim,
            .out = io.out + (row * num_heads + head) * head_dim,
            .position = sequence.context_length + token};
  }

  // The index-th piece of a sequence. The longest come first, so that no thread is left with a long one at the end.
  Piece PieceOf(const SequenceRows& sequence, std::int64_t index) const {
    const std::int64_t num_rows = sequence.num_queries * heads_per_kv_head();
    const std::int64_t begin = (PiecesPerKvHead(sequence) - 1 - index / num_kv_heads) * kMaxPieceRows;
    Piece piece;
    piece.num_rows = static_cast<int>(std::min<std::int64_t>(kMaxPieceRows, num_rows - begin));
    piece.kv_head = index % num_kv_heads;
    piece.block_table = sequence.block_table;
    for (int r = 0; r < piece.num_rows; ++r) piece.rows[r] = RowOf(sequence, piece.kv_head, begin + r);
    return piece;
  }
};

}  // namespace

void PagedAttention(const AttentionRows& rows, std::span<const SequenceRows> sequences, const KvCache& cache,
                    const AttentionParameters& parameters, ThreadPool& pool) {
  CheckKvCacheShape(cache.shape);
  if (parameters.num_heads == 0) return;
  CHECK_GT(cache.shape.num_kv_heads, 0);
  CHECK_EQ(parameters.num_heads % cache.shape.num_kv_heads, 0);
  const Cutter cutter{rows, parameters.num_heads, cache.shape.num_kv_heads, cache.shape.head_dim};
  const auto pieces_of = [&](const SequenceRows& s) { return cutter.PiecesPerKvHead(s) * cutter.num_kv_heads; };
  const std::int64_t num_pieces = CountPieces(sequences, pieces_of);

  // As ParallelForEach, with a cursor for each thread.
  std::atomic<std::int64_t> next = 0;
  pool.ParallelFor(std::min<std::int64_t>(num_pieces, pool.num_threads()), [&](std::int64_t, std::int64_t) {
    RaggedCursor cursor(sequences, pieces_of);
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < num_pieces;) {
      const auto place = cursor.Find(i);
      Attend(cutter.PieceOf(place.sequence, place.index), cache, parameters.scale);
    }
  });
}

}  // namespace trireme::kernels::cpu
#endif  // HWY_ONCE
