#include "client/cli/plan_text.h"

#include <gtest/gtest.h>

namespace trireme::client {
namespace {

TEST(ShowBytes, PicksTheUnit) {
  EXPECT_EQ(ShowBytes(0), "0 B");
  EXPECT_EQ(ShowBytes(1023), "1023 B");
  EXPECT_EQ(ShowBytes(1024), "1.0 KiB");
  EXPECT_EQ(ShowBytes(1536), "1.5 KiB");
  EXPECT_EQ(ShowBytes(std::int64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(ShowBytes(std::int64_t{5000} << 40), "5000.0 TiB");
}

TEST(ShowSlices, TellsWholeCutAndEmptyDimensions) {
  sharding::ParameterDescription parameter;
  parameter.full_shape = {32, 8};
  parameter.slices = {{{0, 32}}, {{0, 8}}};
  EXPECT_EQ(ShowSlices(parameter), "[:, :]");
  parameter.slices = {{{0, 8}, {16, 24}}, {{4, 8}}};
  EXPECT_EQ(ShowSlices(parameter), "[0:8+16:24, 4:8]");
  parameter.slices = {{{32, 32}}, {{0, 8}}};
  EXPECT_EQ(ShowSlices(parameter), "[none, :]");
  parameter.slices = {{}, {{0, 8}}};
  EXPECT_EQ(ShowSlices(parameter), "[none, :]");
}

}  // namespace
}  // namespace trireme::client
