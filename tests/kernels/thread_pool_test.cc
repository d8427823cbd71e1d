#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

namespace trireme::kernels::cpu {
namespace {

// How often each index of [0, n) was visited.
std::vector<int> Visits(ThreadPool& pool, std::int64_t n, std::int64_t min_range) {
  std::vector<int> visits(static_cast<std::size_t>(n));
  pool.ParallelFor(n, min_range, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
  });
  return visits;
}

TEST(ThreadPoolTest, RangesTileTheLoop) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool({.num_threads = threads});
    EXPECT_EQ(pool.num_threads(), threads);
    for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 1000}) {
      EXPECT_EQ(Visits(pool, n, 1), std::vector<int>(static_cast<std::size_t>(n), 1)) << n << " on " << threads;
      EXPECT_EQ(Visits(pool, n, 5), std::vector<int>(static_cast<std::size_t>(n), 1)) << n << " on " << threads;
    }
  }
}

TEST(ThreadPoolTest, NoRangeIsSmallerThanAsked) {
  ThreadPool pool({.num_threads = 4});
  std::mutex mutex;
  std::vector<std::int64_t> sizes;
  pool.ParallelFor(11, 5, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    sizes.push_back(end - begin);
  });
  EXPECT_EQ(sizes.size(), 2u);
  for (const std::int64_t size : sizes) EXPECT_GE(size, 5);
}

TEST(ThreadPoolTest, TheBodyIsNotCalledForNothing) {
  ThreadPool pool({.num_threads = 2});
  pool.ParallelFor(0, [](std::int64_t, std::int64_t) { FAIL(); });
  pool.ParallelForEach(0, [](std::int64_t) { FAIL(); });
}

TEST(ThreadPoolTest, OneThreadIsTheCaller) {
  ThreadPool pool({});
  const auto caller = std::this_thread::get_id();
  pool.ParallelFor(100, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 100);
  });
}

TEST(ThreadPoolTest, EachThreadTakesOneRange) {
  ThreadPool pool({.num_threads = 4});
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.ParallelFor(4, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 4u);
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(ThreadPoolTest, ForEachVisitsEachItemOnce) {
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Microseconds(20)}) {
    ThreadPool pool({.num_threads = 3, .spin = spin});
    std::vector<int> visits(10007);
    pool.ParallelForEach(std::ssize(visits), [&](std::int64_t i) { ++visits[static_cast<std::size_t>(i)]; });
    EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0), 10007);
    EXPECT_EQ(visits, std::vector<int>(10007, 1));
  }
}

// Each loop reads what the one before wrote on other threads: a lost wake-up hangs here, a missing fence
// shows as a race under ThreadSanitizer or a wrong sum.
TEST(ThreadPoolTest, ShortLoopsInARowSeeEachOthersResults) {
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Microseconds(5)}) {
    ThreadPool pool({.num_threads = 4, .spin = spin});
    std::vector<std::int64_t> values(64, 0), next(64, 0);
    constexpr int kLoops = 20000;
    for (int loop = 0; loop < kLoops; ++loop) {
      pool.ParallelFor(std::ssize(values), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          next[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>((i + 17) % 64)] + 1;
        }
      });
      values.swap(next);
    }
    EXPECT_EQ(values, std::vector<std::int64_t>(64, kLoops));
  }
}

TEST(ThreadPoolTest, PoolsComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool({.num_threads = 3});
    EXPECT_EQ(Visits(pool, 5, 1), std::vector<int>(5, 1));
  }
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ThreadPoolTest, AnIdlePoolUsesNoProcessor) {
  ThreadPool pool({.num_threads = 4, .spin = absl::Milliseconds(1)});
  Visits(pool, 100, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = CpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(CpuSeconds() - before, 0.03);
}

}  // namespace
}  // namespace trireme::kernels::cpu
