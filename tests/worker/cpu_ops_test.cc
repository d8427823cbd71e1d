#include "worker/cpu_ops.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace trireme::worker {
namespace {

using kernels::ElementType;
using testing::ElementsAre;

std::vector<float> RandomFloats(std::size_t size, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

float Rounded(float value, ElementType type) {
  return type == ElementType::kFloat32 ? value : kernels::ToFloat(kernels::ToBfloat16(value));
}

HostTensor Tensor(const std::vector<float>& values, std::int64_t rows, std::int64_t columns, ElementType type) {
  HostTensor tensor = {.memory = kernels::cpu::AlignedBuffer(values.size() * kernels::ElementBytes(type)),
                       .type = type,
                       .rows = rows,
                       .columns = columns};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::kFloat32) {
      tensor.memory.As<float>()[i] = values[i];
    } else {
      tensor.memory.As<kernels::Bfloat16>()[i] = kernels::ToBfloat16(values[i]);
    }
  }
  return tensor;
}

struct ProductCase {
  std::int64_t rows, in, out;
  ElementType type;
};

class CpuOpsLinear : public testing::TestWithParam<ProductCase> {};

// In bfloat16, judged on inputs that are rounded as the product rounds them: what is left is the error of float32 sums.
TEST_P(CpuOpsLinear, IsTheProductOfRoundedInputs) {
  const auto [rows, in, out, type] = GetParam();
  const auto ops = MakeCpuOps({.num_threads = 2, .max_rows = rows, .max_in_width = in});
  std::vector<float> x = RandomFloats(rows * in, 1), weight = RandomFloats(out * in, 2), bias = RandomFloats(out, 3);
  const auto packed = ops->Pack(Tensor(weight, out, in, type));
  const auto held_bias = ops->Hold(Tensor(bias, 1, out, ElementType::kFloat32));
  std::vector<float> result(rows * out);
  ops->Linear(*packed, held_bias.get(), {x.data(), rows, in}, {result.data(), rows, out});
  const double tolerance = 1e-6 * static_cast<double>(in + 16);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < out; ++j) {
      double sum = bias[j];
      for (std::int64_t i = 0; i < in; ++i) {
        sum += static_cast<double>(Rounded(x[r * in + i], type)) * Rounded(weight[j * in + i], type);
      }
      ASSERT_NEAR(result[r * out + j], sum, tolerance) << r << ", " << j;
    }
  }
}

std::vector<ProductCase> ProductCases() {
  std::vector<ProductCase> cases;
  for (ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (std::int64_t rows : {1, 3, 65}) cases.push_back({rows, 96, 130, type});
    cases.push_back({2, 576, 192, type});
    cases.push_back({2, 0, 5, type});
    cases.push_back({2, 8, 0, type});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Sizes, CpuOpsLinear, testing::ValuesIn(ProductCases()));

TEST(CpuOps, TakesAndPlacesColumns) {
  const auto ops = MakeCpuOps({});
  std::vector<float> x = {0, 1, 2, 3, 4, 10, 11, 12, 13, 14}, taken(6), placed(10, -1);
  const sharding::Intervals part = {{0, 1}, {2, 2}, {3, 5}};
  ops->TakeColumns({x.data(), 2, 5}, part, {taken.data(), 2, 3});
  EXPECT_THAT(taken, ElementsAre(0, 3, 4, 10, 13, 14));
  ops->PlaceColumns({taken.data(), 2, 3}, part, {placed.data(), 2, 5});
  EXPECT_THAT(placed, ElementsAre(0, -1, -1, 3, 4, 10, -1, -1, 13, 14));
  ops->TakeColumns({x.data(), 2, 5}, {}, {taken.data(), 2, 0});  // an empty part
}

TEST(CpuOps, MemoryIsZeroAndAligned) {
  const auto ops = MakeCpuOps({.num_threads = 3});
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{5} << 20}) {
    const auto memory = ops->Allocate(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*memory)->data()) % 64, 0u);
    for (std::size_t i = 0; i < bytes; i += 4096) ASSERT_EQ((*memory)->data()[i], std::byte{0});
  }
}

TEST(CpuOps, AnswersDoNotDependOnTheNumberOfThreads) {
  constexpr std::int64_t kRows = 3, kIds = 10'007;
  std::vector<float> logits = RandomFloats(kRows * kIds, 5);
  const auto row = [&](int r) { return std::span<const float>(logits).subspan(r * kIds, kIds); };
  const std::vector<LogitQuestion> questions = {
      {.logits = row(0), .wants_log_sum_exp = true, .num_candidates = 5, .token_id = 4321},
      {.logits = row(1),
       .temperature = 0.7f,
       .draw = GumbelDraw{.seed = 3},
       .wants_log_sum_exp = true,
       .wants_scaled_log_sum_exp = true},
      {.logits = row(2), .draw = GumbelDraw{.seed = 4}, .num_candidates = 20}};
  std::vector<LogitAnswer> first(kRows);
  std::vector<TokenScore> first_candidates(25);
  for (int num_threads : {1, 2, 4}) {
    const auto ops = MakeCpuOps({.num_threads = num_threads});
    std::vector<LogitAnswer> answers(kRows);
    std::vector<TokenScore> candidates(25);
    ops->AnswerLogits(0, questions, answers, candidates);
    EXPECT_EQ(answers[0].token_logit, logits[4321]);
    if (num_threads == 1) first = answers, first_candidates = candidates;
    for (std::int64_t r = 0; r < kRows; ++r) {
      EXPECT_EQ(answers[r].best, first[r].best);
      EXPECT_EQ(answers[r].best_logit, logits[r * kIds + answers[r].best.id]);
      EXPECT_EQ(answers[r].log_sum_exp.sum, first[r].log_sum_exp.sum);
      EXPECT_EQ(answers[r].scaled_log_sum_exp.sum, first[r].scaled_log_sum_exp.sum);
    }
    EXPECT_EQ(candidates, first_candidates);
  }
}

TEST(CpuOps, EditsACopyOfARow) {
  const auto ops = MakeCpuOps({});
  const std::vector<float> row = {1, 2, 3, 4};
  std::vector<float> out(4);
  const std::vector<kernels::cpu::LogitEdit> edits = {{.id = 11, .bias = 5}, {.id = 13, .is_repeated = true}};
  ops->EditLogits(10, row, edits, {.repetition = 2}, out);
  EXPECT_THAT(out, ElementsAre(1, 7, 3, 2));
  EXPECT_THAT(row, ElementsAre(1, 2, 3, 4));
  ops->EditLogits(0, {}, {}, {}, {});  // an empty part
}

}  // namespace
}  // namespace trireme::worker
