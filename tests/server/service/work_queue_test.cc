#include "server/service/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/synchronization/notification.h"

namespace trireme::server {
namespace {

TEST(WorkQueue, RunsTasksOfOneThreadInOrder) {
  std::vector<int> ran;
  {
    WorkQueue queue(1, 100, 0);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(queue.TryPost(0, [&ran, i] { ran.push_back(i); }));
  }
  ASSERT_EQ(ran.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST(WorkQueue, RefusesWhatWouldWaitTooLong) {
  absl::Notification started, release;
  std::atomic<int> ran = 0;
  {
    WorkQueue queue(1, 2, 0);
    EXPECT_TRUE(queue.TryPost(0, [&] {
      started.Notify();
      release.WaitForNotificationWithTimeout(absl::Seconds(10));
    }));
    ASSERT_TRUE(started.WaitForNotificationWithTimeout(absl::Seconds(10)));
    EXPECT_TRUE(queue.TryPost(0, [&] { ++ran; }));
    EXPECT_TRUE(queue.TryPost(0, [&] { ++ran; }));
    EXPECT_FALSE(queue.TryPost(0, [&] { ++ran; }));
    release.Notify();
  }
  EXPECT_EQ(ran, 2);
}

TEST(WorkQueue, RefusesWhatWouldHoldTooMuchMemoryWhileItWaits) {
  absl::Notification started, release, ended;
  WorkQueue queue(1, 100, 10);
  EXPECT_FALSE(queue.TryPost(11, [] {}));
  EXPECT_TRUE(queue.TryPost(10, [&] {
    started.Notify();
    release.WaitForNotificationWithTimeout(absl::Seconds(10));
  }));
  ASSERT_TRUE(started.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_TRUE(queue.TryPost(4, [] {})) << "what runs does not wait";
  EXPECT_TRUE(queue.TryPost(6, [&] { ended.Notify(); }));
  EXPECT_FALSE(queue.TryPost(1, [] {}));
  EXPECT_TRUE(queue.TryPost(0, [] {}));
  release.Notify();
  ASSERT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_TRUE(queue.TryPost(10, [] {}));
}

TEST(WorkQueue, RunsTasksAtOnceOnSeveralThreads) {
  absl::Notification first, second;
  WorkQueue queue(2, 2, 0);
  EXPECT_TRUE(queue.TryPost(0, [&] {
    first.Notify();
    EXPECT_TRUE(second.WaitForNotificationWithTimeout(absl::Seconds(10)));
  }));
  EXPECT_TRUE(queue.TryPost(0, [&] {
    EXPECT_TRUE(first.WaitForNotificationWithTimeout(absl::Seconds(10)));
    second.Notify();
  }));
}

}  // namespace
}  // namespace trireme::server
