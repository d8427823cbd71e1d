#include "kernels/product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "base/cpu.h"
#include "tests/support/kernel_oracles.h"

namespace trireme::kernels::cpu {
namespace {

using testing::ElementsAreArray;

constexpr float kFloatEpsilon = 0x1p-24f;  // half a unit in the last place of 1

struct Problem {
  std::int64_t rows, n, k;
  ElementType type;
  ProductEngine engine;
  std::vector<float> x, weight, bias;
  std::vector<Bfloat16> weight_halves;

  Problem(std::int64_t r, std::int64_t columns, std::int64_t depth, ElementType t, ProductEngine e)
      : rows(r),
        n(columns),
        k(depth),
        type(t),
        engine(e),
        x(oracle::RandomFloats(r * depth, 1)),
        weight(oracle::RandomFloats(columns * depth, 2)),
        bias(oracle::RandomFloats(columns, 3)),
        weight_halves(oracle::Bfloat16Of(weight)) {
    if (type == ElementType::kBfloat16) weight = oracle::FloatsOf(weight_halves);
  }

  Matrix WeightMatrix() const {
    const void* data = type == ElementType::kFloat32 ? static_cast<const void*>(weight.data()) : weight_halves.data();
    return {.data = data, .type = type, .rows = n, .columns = k};
  }

  std::vector<float> RoundedX() const {
    return type == ElementType::kFloat32 ? x : oracle::FloatsOf(oracle::Bfloat16Of(x));
  }

  // The product of rows [begin, end).
  std::vector<float> Multiply(const PackedWeight& packed, std::int64_t begin, std::int64_t end, bool with_bias,
                              ThreadPool& pool) const {
    Multiplier multiplier({.max_rows = end - begin, .max_k = k}, pool);
    std::vector<float> out(static_cast<std::size_t>((end - begin) * n), std::nanf(""));
    multiplier.Multiply(
        packed,
        {.x = x.data() + begin * k, .bias = with_bias ? bias.data() : nullptr, .out = out.data(), .rows = end - begin});
    return out;
  }
};

// Any order of summation errs by at most k roundings of the partial sums, which the sum of magnitudes bounds.
void ExpectNearOracle(const Problem& p, bool with_bias, const std::vector<float>& out) {
  const auto want =
      oracle::Product(p.RoundedX(), p.weight, with_bias ? p.bias : std::vector<float>(), p.rows, p.n, p.k);
  ASSERT_EQ(out.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double tolerance = static_cast<double>(p.k + 2) * kFloatEpsilon * want[i].magnitude + 1e-37;
    ASSERT_NEAR(out[i], want[i].value, tolerance)
        << "row " << i / static_cast<std::size_t>(p.n) << " column " << i % static_cast<std::size_t>(p.n);
  }
}

struct Engine {
  ElementType type;
  ProductEngine engine;
};

class ProductTest : public testing::TestWithParam<Engine> {
 protected:
  void SetUp() override {
    if (GetParam().engine == ProductEngine::kOneDnn && !GetCpuFeatures().avx512) {
      GTEST_SKIP() << "oneDNN multiplies bfloat16 on AVX-512 only";
    }
  }
  Problem Make(std::int64_t rows, std::int64_t n, std::int64_t k) const {
    return Problem(rows, n, k, GetParam().type, GetParam().engine);
  }
  ThreadPool pool_{{.num_threads = 2}};
};

INSTANTIATE_TEST_SUITE_P(Engines, ProductTest,
                         testing::Values(Engine{ElementType::kFloat32, ProductEngine::kOwn},
                                         Engine{ElementType::kBfloat16, ProductEngine::kOwn},
                                         Engine{ElementType::kBfloat16, ProductEngine::kOneDnn}),
                         [](const auto& test) {
                           const std::string type = test.param.type == ElementType::kFloat32 ? "Float32" : "Bfloat16";
                           return type + (test.param.engine == ProductEngine::kOwn ? "Own" : "OneDnn");
                         });

TEST_P(ProductTest, AgreesWithTheOracle) {
  const std::vector<std::tuple<int, int, int>> shapes = {
      {1, 1, 1},    {1, 32, 64},  {2, 33, 5},    {3, 31, 7},    {5, 1, 129},   {12, 64, 48}, {13, 65, 171},
      {24, 96, 96}, {64, 7, 300}, {65, 130, 33}, {97, 200, 64}, {193, 171, 9}, {600, 40, 20}};
  for (const auto& [rows, n, k] : shapes) {
    SCOPED_TRACE(testing::Message() << rows << "x" << n << "x" << k);
    const Problem p = Make(rows, n, k);
    const PackedWeight packed(p.WeightMatrix(), p.engine, pool_);
    ExpectNearOracle(p, true, p.Multiply(packed, 0, rows, true, pool_));
    ExpectNearOracle(p, false, p.Multiply(packed, 0, rows, false, pool_));
  }
}

TEST_P(ProductTest, EmptyExtentsAreLegal) {
  for (const auto& [rows, n, k] : std::vector<std::tuple<int, int, int>>{{0, 5, 5}, {3, 0, 5}, {3, 40, 0}, {0, 0, 0}}) {
    SCOPED_TRACE(testing::Message() << rows << "x" << n << "x" << k);
    const Problem p = Make(rows, n, k);
    const PackedWeight packed(p.WeightMatrix(), p.engine, pool_);
    ExpectNearOracle(p, true, p.Multiply(packed, 0, rows, true, pool_));
    const std::vector<float> out = p.Multiply(packed, 0, rows, false, pool_);
    if (k == 0) {
      EXPECT_EQ(out, std::vector<float>(static_cast<std::size_t>(rows * n), 0.0f));
    }
  }
}

TEST_P(ProductTest, KeepsNothingOfTheWeightItWasMadeFrom) {
  Problem p = Make(4, 50, 60);
  const PackedWeight packed(p.WeightMatrix(), p.engine, pool_);
  const std::vector<float> before = p.Multiply(packed, 0, 4, true, pool_);
  std::fill(p.weight.begin(), p.weight.end(), 0.0f);
  std::fill(p.weight_halves.begin(), p.weight_halves.end(), Bfloat16{});
  EXPECT_EQ(p.Multiply(packed, 0, 4, true, pool_), before);
}

TEST_P(ProductTest, RepeatsItself) {
  const Problem p = Make(37, 200, 129);
  const PackedWeight packed(p.WeightMatrix(), p.engine, pool_);
  EXPECT_EQ(p.Multiply(packed, 0, 37, true, pool_), p.Multiply(packed, 0, 37, true, pool_));
}

class OwnProductTest : public ProductTest {};
INSTANTIATE_TEST_SUITE_P(Types, OwnProductTest,
                         testing::Values(Engine{ElementType::kFloat32, ProductEngine::kOwn},
                                         Engine{ElementType::kBfloat16, ProductEngine::kOwn}),
                         [](const auto& test) {
                           return test.param.type == ElementType::kFloat32 ? "Float32" : "Bfloat16";
                         });

// The bits that the contract promises: one chain of fused multiply-adds a sum.
TEST_P(OwnProductTest, EachSumIsOneChainInTheOrderOfK) {
  if (!GetCpuFeatures().avx2_fma) GTEST_SKIP() << "this CPU has no fused multiply-add";
  const Problem p = Make(29, 77, 131);
  const PackedWeight packed(p.WeightMatrix(), p.engine, pool_);
  const std::vector<float> out = p.Multiply(packed, 0, p.rows, true, pool_);
  const std::vector<float> x = p.RoundedX();
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      float sum = 0;
      for (std::int64_t i = 0; i < p.k; ++i) {
        sum = std::fma(x[static_cast<std::size_t>(r * p.k + i)], p.weight[static_cast<std::size_t>(j * p.k + i)], sum);
      }
      sum += p.bias[static_cast<std::size_t>(j)];
      ASSERT_EQ(out[static_cast<std::size_t>(r * p.n + j)], sum) << r << ", " << j;
    }
  }
}

TEST_P(OwnProductTest, ARowsBitsDoNotDependOnTheBatch) {
  const Problem p = Make(512, 192, 1536);
  const PackedWeight packed(p.WeightMatrix(), p.engine, pool_);
  const std::vector<float> all = p.Multiply(packed, 0, p.rows, true, pool_);
  for (const std::int64_t rows : {1, 2, 3, 4, 8, 11, 12, 13, 16, 31, 64, 96, 97, 128, 255, 256, 511}) {
    for (const std::int64_t begin : {std::int64_t{0}, p.rows - rows}) {
      const std::vector<float> some = p.Multiply(packed, begin, begin + rows, true, pool_);
      const auto first = all.begin() + begin * p.n;
      ASSERT_EQ(some, std::vector<float>(first, first + rows * p.n)) << rows << " rows from " << begin;
    }
  }
}

TEST_P(OwnProductTest, BitsDoNotDependOnTheThreads) {
  const Problem p = Make(100, 300, 200);
  ThreadPool alone({});
  const std::vector<float> want = p.Multiply(PackedWeight(p.WeightMatrix(), p.engine, alone), 0, p.rows, true, alone);
  for (const int threads : {2, 3, 5}) {
    ThreadPool pool({.num_threads = threads});
    EXPECT_EQ(p.Multiply(PackedWeight(p.WeightMatrix(), p.engine, pool), 0, p.rows, true, pool), want) << threads;
  }
}

// Ranks cut n: the columns of a part are those of the whole.
TEST_P(OwnProductTest, BitsDoNotDependOnWhereColumnsAreCut) {
  const Problem p = Make(17, 171, 576);
  const std::vector<float> whole = p.Multiply(PackedWeight(p.WeightMatrix(), p.engine, pool_), 0, p.rows, false, pool_);
  for (const std::int64_t begin : {1, 19, 57, 170}) {
    Matrix part = p.WeightMatrix();
    part.rows = p.n - begin;
    part.data = static_cast<const std::byte*>(part.data) + begin * p.k * ElementBytes(part.type);
    Multiplier multiplier({.max_rows = p.rows, .max_k = p.k}, pool_);
    std::vector<float> out(static_cast<std::size_t>(p.rows * part.rows));
    multiplier.Multiply(PackedWeight(part, p.engine, pool_), {.x = p.x.data(), .out = out.data(), .rows = p.rows});
    for (std::int64_t r = 0; r < p.rows; ++r) {
      for (std::int64_t j = 0; j < part.rows; ++j) {
        ASSERT_EQ(out[static_cast<std::size_t>(r * part.rows + j)],
                  whole[static_cast<std::size_t>(r * p.n + begin + j)]);
      }
    }
  }
}

TEST_P(OwnProductTest, ANanStaysInItsRow) {
  Problem p = Make(14, 40, 30);
  const PackedWeight packed(p.WeightMatrix(), p.engine, pool_);
  const std::vector<float> clean = p.Multiply(packed, 0, p.rows, false, pool_);
  p.x[static_cast<std::size_t>(5 * p.k + 3)] = std::nanf("");
  const std::vector<float> dirty = p.Multiply(packed, 0, p.rows, false, pool_);
  for (std::size_t i = 0; i < dirty.size(); ++i) {
    if (i / 40 == 5) {
      EXPECT_TRUE(std::isnan(dirty[i]));
    } else {
      EXPECT_EQ(dirty[i], clean[i]);
    }
  }
}

TEST(ProductEngineTest, Float32IsAlwaysOurs) {
  EXPECT_EQ(PreferredProductEngine(ElementType::kFloat32), ProductEngine::kOwn);
  EXPECT_EQ(PreferredProductEngine(ElementType::kBfloat16) == ProductEngine::kOneDnn, PrefersBfloat16());
}

TEST(PackedWeightTest, HoldsLittleMoreThanTheWeight) {
  ThreadPool pool({});
  const std::vector<float> weight = oracle::RandomFloats(576 * 192, 1);
  const PackedWeight packed({weight.data(), ElementType::kFloat32, 192, 576}, ProductEngine::kOwn, pool);
  EXPECT_EQ(packed.size_bytes(), 576 * 192 * 4);
}

}  // namespace
}  // namespace trireme::kernels::cpu
