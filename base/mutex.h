// A mutex and a condition variable over std, with Abseil's thread-safety annotations.
//
// Why not absl::Mutex: Debian's Abseil is not instrumented, so ThreadSanitizer reports false races on it. Clang
// checks the annotations (preset `clang`), ThreadSanitizer checks the rest (preset `tsan`).
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace trireme {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may end early; callers look at their condition in a loop.
class CondVar {
 public:
  void Signal() { condition_.notify_one(); }
  void SignalAll() { condition_.notify_all(); }

  // Returns false once `deadline` has passed. absl::InfiniteFuture() waits for ever: only for waits that shutdown ends.
  bool WaitUntil(Mutex& mutex, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    bool in_time = true;
    if (deadline == absl::InfiniteFuture()) {
      condition_.wait(lock);
    } else {
      // Steady, so that a change of the wall clock neither hangs nor ends a wait.
      const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
      in_time = condition_.wait_for(lock, absl::ToChronoNanoseconds(left)) == std::cv_status::no_timeout;
    }
    lock.release();
    return in_time;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace trireme
