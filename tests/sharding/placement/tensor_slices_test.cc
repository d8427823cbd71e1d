#include "sharding/placement/tensor_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sharding/placement/placement.h"

namespace trireme::sharding {
namespace {

using ::testing::ElementsAre;

std::vector<int> IndexValued(const TensorSlices& part) {
  std::vector<int> full(part.full_bytes() / sizeof(int));
  std::iota(full.begin(), full.end(), 0);
  return full;
}

std::vector<int> Cut(const TensorSlices& part, const std::vector<int>& full) {
  std::vector<int> local(part.local_bytes() / sizeof(int), -1);
  CutTensor(part, std::as_bytes(std::span(full)), std::as_writable_bytes(std::span(local)));
  return local;
}

// Cuts dimension `dim` of a tensor for all ranks of `world` and puts the pieces together again.
std::vector<int> CutAndPlace(const Axis& axis, std::vector<std::int64_t> shape, int dim, int world) {
  TensorSlices part{.full_shape = shape, .slices = {}, .element_bytes = sizeof(int)};
  for (const std::int64_t extent : shape) part.slices.push_back(Whole(extent));
  const std::vector<int> full = IndexValued(part);
  std::vector<int> placed(full.size(), -1);
  for (int index = 0; index < world; ++index) {
    part.slices[dim] = *CutAxis(axis, {index, world});
    const std::vector<int> local = Cut(part, full);
    PlaceTensor(part, std::as_bytes(std::span(local)), std::as_writable_bytes(std::span(placed)));
  }
  return placed;
}

TEST(CutTensor, TakesRowsColumnsAndTheirProduct) {
  TensorSlices part{.full_shape = {3, 4}, .slices = {{{1, 3}}, {{0, 4}}}, .element_bytes = sizeof(int)};
  const std::vector<int> full = IndexValued(part);
  EXPECT_THAT(Cut(part, full), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  part.slices = {{{0, 3}}, {{0, 1}, {2, 4}}};
  EXPECT_THAT(Cut(part, full), ElementsAre(0, 2, 3, 4, 6, 7, 8, 10, 11));
  part.slices = {{{2, 3}}, {{3, 4}}};
  EXPECT_THAT(Cut(part, full), ElementsAre(11));
  part.slices = {{}, {{0, 4}}};
  EXPECT_THAT(Cut(part, full), ElementsAre());
}

TEST(CutTensor, TakesAScalarWhole) {
  const TensorSlices part{.full_shape = {}, .slices = {}, .element_bytes = sizeof(int)};
  EXPECT_THAT(Cut(part, {7}), ElementsAre(7));
}

TEST(PlaceTensor, UndoesTheCutOfAllRanks) {
  const AxisBlock half{.extent = 10, .unit = 1, .division = Division::kUneven, .what = "half"};
  const std::vector<Axis> axes = {
      SingleBlock(20, 1, Division::kUneven, "features"),
      Axis{{half, half}},
      SingleBlock(20, 20, Division::kEvenOrReplicated, "KV heads"),
  };
  std::vector<int> full(3 * 20 * 2);
  std::iota(full.begin(), full.end(), 0);
  for (const Axis& axis : axes) {
    for (const int world : {1, 2, 3, 4, 8, 9}) {
      EXPECT_EQ(CutAndPlace(axis, {20, 6}, 0, world), full) << world;
      EXPECT_EQ(CutAndPlace(axis, {3, 20, 2}, 1, world), full) << world;
      EXPECT_EQ(CutAndPlace(axis, {6, 20}, 1, world), full) << world;
    }
  }
}

}  // namespace
}  // namespace trireme::sharding
