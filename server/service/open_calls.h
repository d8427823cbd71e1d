// How many calls are open, so that a shutdown need not wait longer than they last.
#pragma once
#include "absl/time/time.h"
#include "base/mutex.h"

namespace trireme::server {

// Thread-safe.
class OpenCalls {
 public:
  void Enter() {
    MutexLock lock(mutex_);
    ++count_;
  }

  void Leave() {
    MutexLock lock(mutex_);
    if (--count_ == 0) is_zero_.SignalAll();
  }

  // False if some are open at `deadline`.
  bool WaitUntilNone(absl::Time deadline) {
    MutexLock lock(mutex_);
    while (count_ > 0) {
      if (!is_zero_.WaitUntil(mutex_, deadline)) return count_ == 0;
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar is_zero_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace trireme::server
