#include "kernels/cpu/thread_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace trireme::kernels::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Returns once `value` is no longer `old`. Loads are sequentially consistent, as are all stores to what is
// waited for here: libstdc++'s notify looks whether anybody waits by a plain load, which a weaker store could
// overtake, and the waiter would sleep for ever.
template <typename T>
void WaitWhileEqual(const std::atomic<T>& value, T old, std::chrono::nanoseconds spin) {
  if (spin.count() > 0) {
    constexpr int kLooksPerClock = 64;
    const Clock::time_point end = Clock::now() + spin;
    do {
      for (int i = 0; i < kLooksPerClock; ++i) {
        if (value.load() != old) return;
        _mm_pause();
      }
    } while (Clock::now() < end);
  }
  value.wait(old);
}

}  // namespace

// A thread and the range it has been given. On a cache line of its own: it is polled.
class alignas(64) ThreadPool::Worker {
 public:
  explicit Worker(ThreadPool& pool) : pool_(pool), thread_([this] { Main(); }) {}

  ~Worker() {
    Set(State::kStopped);
    thread_.join();
  }

  // REQUIRES: the worker has finished the range it was given before.
  void Give(Loop loop, std::int64_t begin, std::int64_t end) {
    loop_ = loop;
    begin_ = begin;
    end_ = end;
    Set(State::kGiven);
  }

 private:
  enum class State { kIdle, kGiven, kStopped };

  void Set(State state) {
    state_.store(state);
    state_.notify_one();
  }

  void Main() {
    for (;;) {
      WaitWhileEqual(state_, State::kIdle, pool_.spin_);
      if (state_.load() == State::kStopped) return;
      loop_.call(loop_.body, begin_, end_);
      state_.store(State::kIdle);  // before the pool learns of it, as it may give the next range at once
      if (pool_.num_running_.fetch_sub(1) == 1) pool_.num_running_.notify_one();
    }
  }

  ThreadPool& pool_;
  std::atomic<State> state_ = State::kIdle;
  Loop loop_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::thread thread_;  // last, since it uses the others
};

ThreadPool::ThreadPool(const ThreadPoolOptions& options) : spin_(absl::ToChronoNanoseconds(options.spin)) {
  CHECK_GE(options.num_threads, 1);
  for (int i = 1; i < options.num_threads; ++i) workers_.push_back(std::make_unique<Worker>(*this));
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::Run(std::int64_t n, std::int64_t min_range, Loop loop) {
  if (n <= 0) return;
  const std::int64_t most = std::max<std::int64_t>(n / std::max<std::int64_t>(min_range, 1), 1);
  const std::int64_t num_ranges = std::min<std::int64_t>(num_threads(), most);
  if (num_ranges == 1) return loop.call(loop.body, 0, n);

  num_running_.store(static_cast<int>(num_ranges) - 1);
  for (std::int64_t i = 1; i < num_ranges; ++i) {
    workers_[static_cast<std::size_t>(i - 1)]->Give(loop, n * i / num_ranges, n * (i + 1) / num_ranges);
  }
  loop.call(loop.body, 0, n / num_ranges);
  for (int running; (running = num_running_.load()) != 0;) WaitWhileEqual(num_running_, running, spin_);
}

}  // namespace trireme::kernels::cpu
