#include "base/mutex.h"

#include <gtest/gtest.h>

#include <thread>

namespace trireme {
namespace {

TEST(CondVar, ReportsThatTheDeadlinePassed) {
  Mutex mutex;
  CondVar condition;
  MutexLock lock(mutex);
  while (condition.WaitUntil(mutex, absl::Now() + absl::Milliseconds(1))) {
  }
}

TEST(CondVar, WakesAWaiter) {
  Mutex mutex;
  CondVar condition;
  bool ready = false;
  std::thread setter([&] {
    MutexLock lock(mutex);
    ready = true;
    condition.SignalAll();
  });
  {
    MutexLock lock(mutex);
    while (!ready) ASSERT_TRUE(condition.WaitUntil(mutex, absl::Now() + absl::Seconds(30)));
  }
  setter.join();
}

}  // namespace
}  // namespace trireme
