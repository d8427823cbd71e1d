#include "base/check.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Check, PassesSilently) {
  CHECK(true) << "not evaluated";
  CHECK_EQ(1 + 1, 2);
}

TEST(CheckDeathTest, PrintsBothValues) {
  const int heads = 9;
  EXPECT_DEATH(CHECK_EQ(heads % 2, 0) << "heads " << heads, "heads % 2 == 0 \\(1 against 0\\) heads 9");
}

TEST(Check, EvaluatesItsArgumentsOnce) {
  int calls = 0;
  CHECK_GT(++calls, 0);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace trireme
