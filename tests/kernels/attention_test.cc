#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tests/support/kernel_oracles.h"

namespace trireme::kernels::cpu {
namespace {

struct Shape {
  std::int64_t num_heads, num_kv_heads, head_dim, block_size;
  ElementType type = ElementType::kFloat32;
};

// A cache whose blocks are handed out in a shuffled order and hold NaNs until they are written, so that
// reading anything that is not there shows.
class Cache {
 public:
  Cache(const Shape& shape, std::int64_t num_blocks)
      : cache_{.shape = {num_blocks, shape.block_size, shape.num_kv_heads, shape.head_dim, shape.type}},
        free_(static_cast<std::size_t>(num_blocks)) {
    const auto bytes = static_cast<std::size_t>(KvCacheBytes(cache_.shape));
    keys_.assign(bytes, std::byte{0xff});  // a NaN in both types
    values_ = keys_;
    cache_.keys = keys_.data();
    cache_.values = values_.data();
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), std::mt19937(7));
  }

  const KvCache& view() const { return cache_; }

  void Extend(std::vector<std::int32_t>& table, std::int64_t tokens) {
    while (std::ssize(table) * cache_.shape.block_size < tokens) {
      ASSERT_FALSE(free_.empty());
      table.push_back(free_.back());
      free_.pop_back();
    }
  }

 private:
  KvCache cache_;
  std::vector<std::byte> keys_, values_;
  std::vector<std::int32_t> free_;
};

// Queries, keys and values of all tokens of a sequence.
struct Sequence {
  std::int64_t tokens;
  std::vector<float> q, k, v;
  std::vector<std::int32_t> table;
  std::vector<float> out;  // of the tokens done so far

  Sequence(const Shape& shape, std::int64_t count, unsigned seed)
      : tokens(count),
        q(oracle::RandomFloats(count * shape.num_heads * shape.head_dim, seed)),
        k(oracle::RandomFloats(count * shape.num_kv_heads * shape.head_dim, seed + 1000)),
        v(oracle::RandomFloats(count * shape.num_kv_heads * shape.head_dim, seed + 2000)) {}

  std::int64_t Done(const Shape& shape) const { return std::ssize(out) / (shape.num_heads * shape.head_dim); }
};

float ScaleOf(const Shape& shape) { return 1.0f / std::sqrt(static_cast<float>(shape.head_dim)); }

// One step: `counts[i]` more tokens of sequence i, in one ragged batch. Rows have gaps between them.
void Step(const Shape& shape, std::vector<Sequence>& sequences, const std::vector<std::int64_t>& counts, Cache& cache,
          ThreadPool& pool) {
  const std::int64_t q_dim = shape.num_heads * shape.head_dim, kv_dim = shape.num_kv_heads * shape.head_dim;
  const std::int64_t q_stride = q_dim + 3, kv_stride = kv_dim + 5;
  std::vector<float> q, k, v;
  std::vector<SequenceRows> rows;
  const auto append = [](std::vector<float>& to, const std::vector<float>& from, std::int64_t token, std::int64_t dim,
                         std::int64_t stride) {
    to.insert(to.end(), from.begin() + token * dim, from.begin() + (token + 1) * dim);
    to.resize(to.size() + static_cast<std::size_t>(stride - dim), 1e30f);
  };
  std::int64_t total = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    Sequence& sequence = sequences[s];
    const std::int64_t done = sequence.Done(shape);
    cache.Extend(sequence.table, done + counts[s]);
    rows.push_back(
        {.query_begin = total, .num_queries = counts[s], .context_length = done, .block_table = sequence.table.data()});
    for (std::int64_t t = done; t < done + counts[s]; ++t) {
      append(q, sequence.q, t, q_dim, q_stride);
      append(k, sequence.k, t, kv_dim, kv_stride);
      append(v, sequence.v, t, kv_dim, kv_stride);
    }
    total += counts[s];
  }
  std::vector<float> out(static_cast<std::size_t>(total * q_dim), std::nanf(""));
  WriteKv({k.data(), v.data(), kv_stride}, rows, cache.view(), pool);
  PagedAttention({q.data(), q_stride, out.data()}, rows, cache.view(), {shape.num_heads, ScaleOf(shape)}, pool);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const auto first = out.begin() + rows[s].query_begin * q_dim;
    sequences[s].out.insert(sequences[s].out.end(), first, first + counts[s] * q_dim);
  }
}

// All tokens of one sequence, in chunks of `chunk`.
std::vector<float> RunAlone(const Shape& shape, const Sequence& sequence, std::int64_t chunk, ThreadPool& pool) {
  Cache cache(shape, sequence.tokens / shape.block_size + 2);
  std::vector<Sequence> one = {sequence};
  while (one[0].Done(shape) < sequence.tokens) {
    Step(shape, one, {std::min(chunk, sequence.tokens - one[0].Done(shape))}, cache, pool);
  }
  return one[0].out;
}

std::vector<double> Want(const Shape& shape, const Sequence& sequence) {
  const bool halves = shape.type == ElementType::kBfloat16;
  const auto stored = [&](const std::vector<float>& v) { return halves ? oracle::FloatsOf(oracle::Bfloat16Of(v)) : v; };
  return oracle::Attention(sequence.q, stored(sequence.k), stored(sequence.v),
                           {shape.num_heads, shape.num_kv_heads, shape.head_dim, ScaleOf(shape)});
}

// A score errs by head_dim roundings of terms below 25 (products of values under 5), times scale, which
// shifts a weight by that much, relatively; the sum over tokens by as many roundings again as there are
// tokens. Values are below 5.
double Tolerance(const Shape& shape, std::int64_t tokens) {
  const double dim = static_cast<double>(shape.head_dim);
  const double score = (dim + 4) * std::sqrt(dim) * 0x1p-24;
  return 5 * (2 * score + (static_cast<double>(tokens) + 16) * 0x1p-24);
}

const std::vector<Shape> kShapes = {{1, 1, 1, 1},
                                    {2, 1, 3, 4},
                                    {3, 3, 16, 16},
                                    {9, 3, 64, 16},
                                    {4, 2, 80, 32},
                                    {8, 1, 7, 16},
                                    {20, 2, 32, 16},
                                    {2, 2, 256, 128},
                                    {6, 2, 33, 17},
                                    {9, 3, 64, 16, ElementType::kBfloat16},
                                    {2, 1, 7, 5, ElementType::kBfloat16},
                                    {3, 1, 100, 48, ElementType::kBfloat16}};

std::string Describe(const Shape& s) {
  return std::to_string(s.num_heads) + " heads, " + std::to_string(s.num_kv_heads) + " of kv, " +
         std::to_string(s.head_dim) + " wide, blocks of " + std::to_string(s.block_size) +
         (s.type == ElementType::kBfloat16 ? ", bfloat16" : "");
}

class AttentionTest : public testing::Test {
 protected:
  ThreadPool pool_{{.num_threads = 2}};
};

TEST_F(AttentionTest, AgreesWithTheOracle) {
  for (const Shape& shape : kShapes) {
    for (const std::int64_t tokens : {1, 2, 15, 16, 17, 70}) {
      SCOPED_TRACE(Describe(shape) + ", tokens " + std::to_string(tokens));
      const Sequence sequence(shape, tokens, 1);
      const std::vector<float> out = RunAlone(shape, sequence, tokens, pool_);
      const std::vector<double> want = Want(shape, sequence);
      ASSERT_EQ(out.size(), want.size());
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], Tolerance(shape, tokens)) << i;
    }
  }
}

TEST_F(AttentionTest, ALongPromptAgreesWithTheOracle) {
  const Shape shape{3, 1, 64, 16};
  const Sequence sequence(shape, 700, 1);
  const std::vector<float> out = RunAlone(shape, sequence, 512, pool_);
  const std::vector<double> want = Want(shape, sequence);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], Tolerance(shape, 700)) << i;
}

TEST_F(AttentionTest, BitsDoNotDependOnTheChunks) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(Describe(shape));
    const Sequence sequence(shape, 83, 2);
    const std::vector<float> whole = RunAlone(shape, sequence, 83, pool_);
    for (const std::int64_t chunk : {1, 2, 7, 16, 50}) {
      EXPECT_EQ(RunAlone(shape, sequence, chunk, pool_), whole) << "chunks of " << chunk;
    }
  }
}

TEST_F(AttentionTest, BitsDoNotDependOnTheThreads) {
  const Shape shape{9, 3, 64, 16};
  const Sequence sequence(shape, 200, 3);
  const std::vector<float> want = RunAlone(shape, sequence, 200, pool_);
  for (const int threads : {1, 3, 5}) {
    ThreadPool pool({.num_threads = threads});
    EXPECT_EQ(RunAlone(shape, sequence, 200, pool), want) << threads;
  }
}

// Prefill chunks and decode tokens together, a sequence that sits a step out, and one that does nothing at all.
TEST_F(AttentionTest, BitsDoNotDependOnTheBatch) {
  for (const Shape& shape : {Shape{9, 3, 64, 16}, Shape{4, 2, 33, 16, ElementType::kBfloat16}}) {
    std::vector<Sequence> sequences;
    const std::vector<std::int64_t> tokens = {40, 1, 100, 33, 0};
    for (std::size_t s = 0; s < tokens.size(); ++s)
      sequences.emplace_back(shape, tokens[s], static_cast<unsigned>(10 * s));
    Cache cache(shape, 30);
    for (const std::vector<std::int64_t>& counts : std::vector<std::vector<std::int64_t>>{
             {10, 0, 64, 1, 0}, {1, 1, 1, 1, 0}, {0, 0, 30, 0, 0}, {29, 0, 5, 31, 0}, {0, 0, 0, 0, 0}}) {
      Step(shape, sequences, counts, cache, pool_);
    }
    for (const Sequence& sequence : sequences) {
      Sequence alone = sequence;
      alone.table.clear();
      alone.out.clear();
      EXPECT_EQ(sequence.out, RunAlone(shape, alone, 1000, pool_)) << Describe(shape) << ", tokens " << sequence.tokens;
    }
  }
}

TEST_F(AttentionTest, OutMayBeQ) {
  const Shape shape{6, 2, 20, 16};
  const Sequence sequence(shape, 50, 4);
  const std::vector<float> want = RunAlone(shape, sequence, 50, pool_);
  Cache cache(shape, 10);
  std::vector<std::int32_t> table;
  cache.Extend(table, 50);
  const SequenceRows rows{.num_queries = 50, .block_table = table.data()};
  std::vector<float> q = sequence.q;
  WriteKv({sequence.k.data(), sequence.v.data(), 40}, {&rows, 1}, cache.view(), pool_);
  PagedAttention({q.data(), 120, q.data()}, {&rows, 1}, cache.view(), {6, ScaleOf(shape)}, pool_);
  EXPECT_EQ(q, want);
}

// Large scores must not overflow, whatever block the greatest is in.
TEST_F(AttentionTest, TheGreatestScoreTakesAll) {
  const Shape shape{1, 1, 8, 4};
  for (const std::int64_t at : {0, 3, 4, 11, 19}) {
    Sequence sequence(shape, 20, 5);
    std::fill(sequence.q.begin(), sequence.q.end(), 1000.0f);
    std::fill(sequence.k.begin(), sequence.k.end(), -1000.0f);
    std::fill_n(sequence.k.begin() + at * 8, 8, 1000.0f);
    const std::vector<float> out = RunAlone(shape, sequence, 20, pool_);
    for (std::size_t d = 0; d < 8; ++d) {
      EXPECT_EQ(out[19 * 8 + d], sequence.v[static_cast<std::size_t>(at) * 8 + d]) << at;
    }
  }
}

TEST_F(AttentionTest, ANanInTheCacheShows) {
  const Shape shape{2, 1, 16, 16};
  for (const bool in_key : {true, false}) {
    Sequence sequence(shape, 40, 6);
    (in_key ? sequence.k : sequence.v)[20 * 16 + 3] = std::nanf("");
    const std::vector<float> out = RunAlone(shape, sequence, 40, pool_);
    for (std::size_t token = 0; token < 40; ++token) {
      EXPECT_EQ(std::isnan(out[token * 32 + 3]), token >= 20) << token;
    }
  }
}

TEST_F(AttentionTest, AnEmptyBatchIsLegal) {
  const Shape shape{2, 1, 16, 16};
  Cache cache(shape, 1);
  WriteKv({}, {}, cache.view(), pool_);
  PagedAttention({}, {}, cache.view(), {2, 1.0f}, pool_);
}

TEST(AttentionDeathTest, RefusesABlockThatIsNotThere) {
  const Shape shape{1, 1, 4, 4};
  Cache cache(shape, 3);
  const std::vector<float> row(4);
  const std::int32_t table = 3;
  const SequenceRows rows{.num_queries = 1, .block_table = &table};
  ThreadPool alone({});
  EXPECT_DEATH(WriteKv({row.data(), row.data(), 4}, {&rows, 1}, cache.view(), alone), "3 against 3");
}

TEST(KvCacheTest, BytesFollowTheType) {
  EXPECT_EQ(KvCacheBytes({10, 16, 3, 64, ElementType::kFloat32}), 10 * 16 * 3 * 64 * 4);
  EXPECT_EQ(KvCacheBytes({10, 16, 3, 64, ElementType::kBfloat16}), 10 * 16 * 3 * 64 * 2);
}

}  // namespace
}  // namespace trireme::kernels::cpu
