// The threads of one rank. A step is a chain of short parallel loops, so starting and ending one must cost little.
//
// Goals: no allocation and no lock per loop; no processor time burnt where ranks share cores; correct under
// ThreadSanitizer (OpenMP's runtime is not). Non-goals: nested loops, tasks, work stealing.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/time/time.h"

namespace trireme::kernels::cpu {

struct ThreadPoolOptions {
  // Including the thread that calls the loops; 1 means that no thread is started.
  int num_threads = 1;

  // How long a thread that waits looks before it sleeps. Zero wherever threads may outnumber processors: a spinning
  // thread then keeps the one it waits for from running. About 50 µs where each has its own processor.
  absl::Duration spin = absl::ZeroDuration();
};

// One thread at a time may call loops, and not from within a loop.
class ThreadPool {
 public:
  explicit ThreadPool(const ThreadPoolOptions& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Cuts [0, n) into at most num_threads() ranges of nearly equal size, none smaller than `min_range` unless
  // n is, and calls body(begin, end) for each, at once. The caller takes part. Returns when all are done;
  // what the body wrote is then visible. Not called for n == 0. The body must not throw.
  template <typename Body>
  void ParallelFor(std::int64_t n, std::int64_t min_range, const Body& body) {
    static_assert(std::is_invocable_v<const Body&, std::int64_t, std::int64_t>);
    Run(n, min_range,
        {[](const void* b, std::int64_t begin, std::int64_t end) { (*static_cast<const Body*>(b))(begin, end); },
         &body});
  }
  template <typename Body>
  void ParallelFor(std::int64_t n, const Body& body) {
    ParallelFor(n, 1, body);
  }

  // Calls body(i) once for each i in [0, n). Threads take the next i as they become free: for items of unequal cost.
  template <typename Body>
  void ParallelForEach(std::int64_t n, const Body& body) {
    std::atomic<std::int64_t> next = 0;
    ParallelFor(std::min<std::int64_t>(n, num_threads()), [&](std::int64_t, std::int64_t) {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(i);
    });
  }

 private:
  struct Loop {
    void (*call)(const void* body, std::int64_t begin, std::int64_t end) = nullptr;
    const void* body = nullptr;
  };
  class Worker;

  void Run(std::int64_t n, std::int64_t min_range, Loop loop);

  const std::chrono::nanoseconds spin_;
  std::atomic<int> num_running_ = 0;  // workers that have not finished their range
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace trireme::kernels::cpu
