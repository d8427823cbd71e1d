#include "sharding/checkpoint/read_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>

namespace trireme::sharding {

void PrintTo(const ElementRun& run, std::ostream* out) {
  *out << "{" << run.in_file << ", " << run.in_slice << ", " << run.count << "}";
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TensorInfo Tensor(std::vector<std::int64_t> shape) { return {.name = "t", .shape = std::move(shape)}; }

// For each element of the slice, in order, its index in the file: by the definition.
std::vector<std::int64_t> SlowIndices(const TensorInfo& tensor, std::span<const Intervals> slices, std::size_t dim = 0,
                                      std::int64_t base = 0) {
  if (dim == slices.size()) return {base};
  std::vector<std::int64_t> all;
  for (const Interval& interval : slices[dim]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i) {
      std::int64_t row = i;
      if (dim == 0 && tensor.interleaved_head_rows.has_value()) {
        const std::int64_t d = *tensor.interleaved_head_rows;
        const std::int64_t within = i % d;
        row = i - within + (within < d / 2 ? 2 * within : 2 * (within - d / 2) + 1);
      }
      const auto inner = SlowIndices(tensor, slices, dim + 1, base * tensor.shape[dim] + row);
      all.insert(all.end(), inner.begin(), inner.end());
    }
  }
  return all;
}

std::vector<std::int64_t> Expand(const std::vector<ElementRun>& runs, std::size_t size) {
  std::vector<std::int64_t> indices(size, -1);
  for (const ElementRun& run : runs) {
    for (std::int64_t i = 0; i < run.count; ++i)
      indices.at(static_cast<std::size_t>(run.in_slice + i)) = run.in_file + i;
  }
  return indices;
}

TEST(PlanRead, RowsAreOneRun) {
  const std::vector<Intervals> slices = {{{2, 5}}, {{0, 10}}};
  EXPECT_THAT(PlanRead(Tensor({8, 10}), slices), ElementsAre(ElementRun{20, 0, 30}));
}

TEST(PlanRead, ColumnsAreARunPerRow) {
  const std::vector<Intervals> slices = {{{0, 3}}, {{4, 6}}};
  EXPECT_THAT(PlanRead(Tensor({3, 10}), slices),
              ElementsAre(ElementRun{4, 0, 2}, ElementRun{14, 2, 2}, ElementRun{24, 4, 2}));
}

TEST(PlanRead, AdjacentIntervalsJoin) {
  const std::vector<Intervals> slices = {{{1, 2}, {2, 4}, {5, 6}}};
  EXPECT_THAT(PlanRead(Tensor({6}), slices), ElementsAre(ElementRun{1, 0, 3}, ElementRun{5, 3, 1}));
}

TEST(PlanRead, ScalarIsOneElement) { EXPECT_THAT(PlanRead(Tensor({}), {}), ElementsAre(ElementRun{0, 0, 1})); }

TEST(PlanRead, NothingIsNoRunAndNoWork) {
  const std::vector<Intervals> no_columns = {{{0, std::int64_t{1} << 60}}, {}};
  EXPECT_THAT(PlanRead(Tensor({std::int64_t{1} << 60, 0}), no_columns), IsEmpty());
  const std::vector<Intervals> empty_rank = {{{3, 3}}, {{0, 2}}};
  EXPECT_THAT(PlanRead(Tensor({3, 2}), empty_rank), IsEmpty());
}

TEST(PlanRead, WholeInterleavedHeadsCoverAContiguousStretch) {
  TensorInfo q = Tensor({8, 3});
  q.interleaved_head_rows = 4;
  const std::vector<Intervals> second_head = {{{4, 8}}, {{0, 3}}};
  EXPECT_THAT(PlanRead(q, second_head),
              ElementsAre(ElementRun{12, 0, 3}, ElementRun{15, 6, 3}, ElementRun{18, 3, 3}, ElementRun{21, 9, 3}));
}

TEST(PlanRead, EqualsTheDefinitionOnRandomSlices) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 3000; ++round) {
    TensorInfo tensor = Tensor({});
    std::vector<Intervals> slices;
    const std::int64_t num_dims = 1 + below(4);
    for (int d = 0; d < num_dims; ++d) {
      tensor.shape.push_back(d == 0 ? 4 * (1 + below(3)) : 1 + below(6));
      Intervals intervals;
      for (std::int64_t at = below(3); at < tensor.shape.back();) {
        const std::int64_t end = std::min(tensor.shape.back(), at + below(5));
        intervals.push_back({at, end});
        at = end + below(3);
        if (intervals.size() == 3) break;
      }
      slices.push_back(intervals);
    }
    if (round % 2 == 0) tensor.interleaved_head_rows = 4;
    ASSERT_TRUE(CheckSlices(tensor, slices).ok()) << CheckSlices(tensor, slices);
    const auto expected = SlowIndices(tensor, slices);
    const auto runs = PlanRead(tensor, slices);
    ASSERT_EQ(Expand(runs, expected.size()), expected);
    ASSERT_TRUE(
        std::is_sorted(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.in_file < b.in_file; }));
  }
}

TEST(CheckSlices, RefusesWhatDoesNotFit) {
  const auto message = [](std::vector<Intervals> slices) {
    return std::string(CheckSlices(Tensor({4, 6}), slices).message());
  };
  EXPECT_EQ(message({{{0, 4}}, {{0, 6}}}), "");
  EXPECT_THAT(message({{{0, 4}}}), HasSubstr("shape [4, 6], but slices of 1 dimensions"));
  EXPECT_THAT(message({{{0, 5}}, {{0, 6}}}), HasSubstr("dimension 0: interval [0, 5)"));
  EXPECT_THAT(message({{{0, 4}}, {{-1, 6}}}), HasSubstr("dimension 1: interval [-1, 6)"));
  EXPECT_THAT(message({{{2, 1}}, {{0, 6}}}), HasSubstr("[2, 1)"));
  EXPECT_THAT(message({{{0, 2}, {1, 3}}, {{0, 6}}}), HasSubstr("[1, 3) is not within [2, 4)"));
}

}  // namespace
}  // namespace trireme::sharding
