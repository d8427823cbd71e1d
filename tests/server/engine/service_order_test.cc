#include "server/engine/service_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trireme::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

ServiceOrder At(int submitted_ms, int priority, std::uint64_t key) {
  return OrderOf(steady_clock::time_point(milliseconds(submitted_ms)), priority, key);
}

TEST(ServiceOrder, IsThatOfArrivalAmongEqualPriorities) {
  EXPECT_LT(At(0, 0, 1), At(1, 0, 2));
  EXPECT_LT(At(0, 7, 1), At(1, 7, 2));
  EXPECT_LT(At(5, 0, 1), At(5, 0, 2));  // at the same moment
}

TEST(ServiceOrder, PutsTheHigherPriorityFirst) {
  EXPECT_LT(At(500, 1, 2), At(0, 0, 1));
  EXPECT_LT(At(500, 0, 2), At(0, -1, 1));
  EXPECT_LT(At(199'000, 100, 2), At(0, -100, 1));
}

TEST(ServiceOrder, LetsASecondOfWaitingWeighAsMuchAsAStepOfPriority) {
  EXPECT_LT(At(0, 0, 1), At(1001, 1, 2));
  EXPECT_LT(At(0, 0, 1), At(1000, 1, 2));  // equal: by arrival
  EXPECT_GT(At(0, 0, 1), At(999, 1, 2));
  EXPECT_LT(At(0, -100, 1), At(200'001, 100, 2));  // the most that anybody can be overtaken by
}

TEST(ServiceOrder, DoesNotChangeAsTimePasses) {
  std::vector<ServiceOrder> all = {At(3000, 2, 4), At(0, 0, 1), At(2500, -3, 3), At(900, 1, 2)};
  std::sort(all.begin(), all.end());
  std::vector<std::uint64_t> keys;
  for (const ServiceOrder& one : all) keys.push_back(one.key);
  EXPECT_EQ(keys, (std::vector<std::uint64_t>{2, 1, 4, 3}));
}

}  // namespace
}  // namespace trireme::server
