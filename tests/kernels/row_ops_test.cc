// The ops that treat rows or elements one by one: norm, rope, activation, add, embedding, gather.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/add.h"
#include "kernels/embedding.h"
#include "kernels/gated_activation.h"
#include "kernels/gather_rows.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "tests/support/kernel_oracles.h"

namespace trireme::kernels::cpu {
namespace {

constexpr double kUlp = 0x1p-23;  // of float32, relative

std::size_t Size(RowsByDim shape) { return static_cast<std::size_t>(shape.rows * shape.dim); }

// Sizes 0, 1, odd, and large enough for all threads.
const std::vector<RowsByDim> kShapes = {{0, 8},  {1, 1},   {1, 576},  {3, 7},    {2, 16},
                                        {5, 33}, {9, 171}, {70, 576}, {40, 1537}};

class RowOpsTest : public testing::Test {
 protected:
  ThreadPool pool_{{.num_threads = 2}};
  ThreadPool alone_{{}};
};

TEST_F(RowOpsTest, RmsNormAgreesWithTheOracle) {
  for (const RowsByDim shape : kShapes) {
    const auto x = oracle::RandomFloats(shape.rows * shape.dim, 1, 3.0f), weight = oracle::RandomFloats(shape.dim, 2);
    const auto want = oracle::RmsNorm(x, weight, shape, 1e-5f);
    std::vector<float> out(Size(shape));
    RmsNorm(x.data(), weight.data(), shape, 1e-5f, out.data(), pool_);
    // The mean errs by dim / 64 + 6 roundings of positive terms, halved by the root; four more roundings follow.
    const double tolerance = (static_cast<double>(shape.dim) / 128 + 8) * kUlp;
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], tolerance * std::abs(want[i]));
    std::vector<float> in_place = x;
    RmsNorm(in_place.data(), weight.data(), shape, 1e-5f, in_place.data(), pool_);
    EXPECT_EQ(in_place, out);
  }
}

TEST_F(RowOpsTest, RmsNormOfZerosIsZero) {
  const std::vector<float> x(20, 0.0f), weight(20, 1.0f);
  std::vector<float> out(20, 1.0f);
  RmsNorm(x.data(), weight.data(), {1, 20}, 1e-6f, out.data(), pool_);
  EXPECT_EQ(out, x);
}

TEST_F(RowOpsTest, RmsNormOfARowDependsOnNoOther) {
  const RowsByDim shape{70, 575};
  const auto x = oracle::RandomFloats(shape.rows * shape.dim, 1), weight = oracle::RandomFloats(shape.dim, 2);
  std::vector<float> all(Size(shape)), one(575);
  RmsNorm(x.data(), weight.data(), shape, 1e-5f, all.data(), pool_);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    RmsNorm(x.data() + r * shape.dim, weight.data(), {1, shape.dim}, 1e-5f, one.data(), alone_);
    ASSERT_TRUE(std::equal(one.begin(), one.end(), all.begin() + r * shape.dim)) << r;
  }
}

std::vector<float> Frequencies(std::int64_t half) {
  std::vector<float> f;
  for (std::int64_t i = 0; i < half; ++i) {
    f.push_back(std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(half)));
  }
  return f;
}

TEST_F(RowOpsTest, RopeAgreesWithTheOracle) {
  struct Case {
    std::int64_t rows, heads, head_dim, half;
  };
  for (const Case c :
       {Case{0, 2, 8, 4}, {1, 1, 2, 1}, {3, 2, 14, 7}, {5, 3, 64, 32}, {90, 9, 64, 32}, {4, 2, 80, 16}}) {
    const auto frequencies = Frequencies(c.half);
    const RopeTable table(frequencies, 4096);
    const auto x = oracle::RandomFloats(c.rows * c.heads * c.head_dim, 1);
    std::vector<std::int32_t> positions;
    for (std::int64_t r = 0; r < c.rows; ++r) positions.push_back(static_cast<std::int32_t>((r * 811 + 4095) % 4096));
    const auto want = oracle::Rope(x, positions, frequencies, c.heads, c.head_dim);
    std::vector<float> out = x;
    ApplyRope({out.data(), c.rows, c.heads, c.head_dim, c.heads * c.head_dim}, positions.data(), table, pool_);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 2 * kUlp * 8) << i;  // |x| < 8
  }
}

TEST_F(RowOpsTest, RopeAtPositionZeroChangesNothing) {
  const auto frequencies = Frequencies(8);
  const RopeTable table(frequencies, 1);
  const auto x = oracle::RandomFloats(16, 1);
  std::vector<float> out = x;
  const std::int32_t position = 0;
  ApplyRope({out.data(), 1, 1, 16, 16}, &position, table, pool_);
  EXPECT_EQ(out, x);
}

TEST_F(RowOpsTest, RopeLeavesWhatLiesBetweenRows) {
  const auto frequencies = Frequencies(4);
  const RopeTable table(frequencies, 10);
  const auto x = oracle::RandomFloats(3 * 20, 1);
  std::vector<float> out = x, packed;
  const std::vector<std::int32_t> positions = {3, 1, 9};
  ApplyRope({out.data(), 3, 2, 8, 20}, positions.data(), table, pool_);
  for (std::size_t r = 0; r < 3; ++r) packed.insert(packed.end(), x.begin() + 20 * r, x.begin() + 20 * r + 16);
  ApplyRope({packed.data(), 3, 2, 8, 16}, positions.data(), table, pool_);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(out[20 * r + i], i < 16 ? packed[16 * r + i] : x[20 * r + i]);
  }
}

TEST_F(RowOpsTest, RopeTableScalesByTheAttentionFactor) {
  const auto frequencies = Frequencies(3);
  const RopeTable plain(frequencies, 5), scaled(frequencies, 5, 1.25f);
  EXPECT_EQ(plain.rotary_dim(), 6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scaled.cosines(4)[i], plain.cosines(4)[i] * 1.25f);
    EXPECT_EQ(scaled.sines(4)[i], plain.sines(4)[i] * 1.25f);
  }
}

TEST_F(RowOpsTest, GatedSiluAgreesWithTheOracle) {
  for (const RowsByDim shape : kShapes) {
    const auto gate = oracle::RandomFloats(shape.rows * shape.dim, 1, 20.0f);
    const auto up = oracle::RandomFloats(shape.rows * shape.dim, 2);
    std::vector<float> out(Size(shape));
    GatedSilu(gate.data(), up.data(), shape, out.data(), pool_);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double want = oracle::Silu(gate[i]) * double{up[i]};
      ASSERT_NEAR(out[i], want, 4 * kUlp * std::abs(want) + 0x1p-120) << gate[i];
    }
    std::vector<float> in_place = gate;
    GatedSilu(in_place.data(), up.data(), shape, in_place.data(), pool_);
    EXPECT_EQ(in_place, out);
  }
}

TEST_F(RowOpsTest, GatedSiluOfExtremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> gate = {0.0f, -0.0f, 3e38f, -3e38f, kInfinity, -kInfinity, -88.0f, -104.0f, std::nanf("")};
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> out(gate.size());
  GatedSilu(gate.data(), up.data(), {1, std::ssize(gate)}, out.data(), pool_);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], 3e38f);
  EXPECT_EQ(out[3], 0.0f);
  EXPECT_EQ(out[4], kInfinity);
  EXPECT_EQ(out[5], 0.0f);
  EXPECT_NEAR(out[6], oracle::Silu(-88.0), 4 * kUlp * 1e-36);
  EXPECT_NEAR(out[7], 0.0f, 0x1p-120);
  EXPECT_TRUE(std::isnan(out[8]));
}

// Elements in a whole vector and in the rest of one must come out alike.
TEST_F(RowOpsTest, GatedSiluOfAnElementDependsOnNoPlace) {
  const auto gate = oracle::RandomFloats(1000, 1, 5.0f), up = oracle::RandomFloats(1000, 2);
  std::vector<float> all(1000);
  GatedSilu(gate.data(), up.data(), {1, 1000}, all.data(), pool_);
  for (std::size_t i = 0; i < 1000; ++i) {
    float one = 0;
    GatedSilu(&gate[i], &up[i], {1, 1}, &one, alone_);
    ASSERT_EQ(one, all[i]);
  }
}

TEST_F(RowOpsTest, SumsAreThoseOfFloats) {
  for (const RowsByDim shape : kShapes) {
    const auto a = oracle::RandomFloats(shape.rows * shape.dim, 1), b = oracle::RandomFloats(shape.rows * shape.dim, 2);
    const auto bias = oracle::RandomFloats(shape.dim, 3);
    std::vector<float> sum(Size(shape)), biased(Size(shape)), scaled(Size(shape));
    Add(a.data(), b.data(), shape, sum.data(), pool_);
    AddBias(a.data(), bias.data(), shape, biased.data(), pool_);
    Scale(a.data(), 1.7f, shape, scaled.data(), pool_);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_EQ(sum[i], a[i] + b[i]);
      ASSERT_EQ(biased[i], a[i] + bias[i % static_cast<std::size_t>(shape.dim)]);
      ASSERT_EQ(scaled[i], a[i] * 1.7f);
    }
    std::vector<float> in_place = a;
    Add(in_place.data(), b.data(), shape, in_place.data(), pool_);
    EXPECT_EQ(in_place, sum);
  }
}

TEST_F(RowOpsTest, EmbeddingIsTheSumOfTheShards) {
  constexpr std::int64_t kVocabulary = 100, kDim = 33;
  const auto table = oracle::RandomFloats(kVocabulary * kDim, 1);
  const auto halves = oracle::Bfloat16Of(table);
  const std::vector<std::int32_t> ids = {0, 99, 42, 42, 33, 34, 66, 67};
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    std::vector<float> sum(ids.size() * kDim, 0.0f);
    for (const auto& [begin, end] : {std::pair{0, 34}, {34, 68}, {68, 100}, {100, 100}}) {
      const void* data = type == ElementType::kFloat32 ? static_cast<const void*>(table.data() + begin * kDim)
                                                       : halves.data() + begin * kDim;
      std::vector<float> part(ids.size() * kDim, 7.0f);
      Embed({data, type, end - begin, kDim}, begin, ids, part.data(), pool_);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const auto at = static_cast<std::size_t>(ids[i / kDim]) * kDim + i % kDim;
      EXPECT_EQ(sum[i], type == ElementType::kFloat32 ? table[at] : ToFloat(halves[at]));
    }
  }
}

TEST_F(RowOpsTest, EmbeddingOfAnIdThatTheTableLacksIsZero) {
  const auto table = oracle::RandomFloats(10, 1);
  const std::vector<std::int32_t> ids = {-1, 5, std::numeric_limits<std::int32_t>::max(),
                                         std::numeric_limits<std::int32_t>::min()};
  std::vector<float> out(8, 7.0f);
  Embed({table.data(), ElementType::kFloat32, 5, 2}, 0, ids, out.data(), pool_);
  EXPECT_EQ(out, std::vector<float>(8, 0.0f));
}

TEST_F(RowOpsTest, GathersRowsInTheOrderAsked) {
  const auto x = oracle::RandomFloats(200 * 301, 1);
  std::vector<std::int32_t> rows(150);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i * 131 % 200);
  rows[7] = rows[8];
  std::vector<float> out(rows.size() * 301);
  GatherRows(x.data(), rows, 301, out.data(), pool_);
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(out[i], x[static_cast<std::size_t>(rows[i / 301]) * 301 + i % 301]);
  }
  GatherRows(x.data(), {}, 301, nullptr, pool_);
}

TEST(RopeDeathTest, RefusesAPositionBeyondItsTable) {
  ThreadPool alone({});
  const auto frequencies = Frequencies(4);
  const RopeTable table(frequencies, 10);
  std::vector<float> x(8);
  const std::int32_t position = 10;
  EXPECT_DEATH(ApplyRope({x.data(), 1, 1, 8, 8}, &position, table, alone), "10 against 10");
}

}  // namespace
}  // namespace trireme::kernels::cpu
