// Ctrl-C as an event instead of the process's end.
#pragma once
#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace trireme::client {

// While one lives, SIGINT calls the handler that is set, on a thread of its own, and does nothing else. To be made
// before other threads are: they inherit that SIGINT is blocked. One at a time.
class InterruptWatcher {
 public:
  InterruptWatcher();
  ~InterruptWatcher();
  InterruptWatcher(const InterruptWatcher&) = delete;
  InterruptWatcher& operator=(const InterruptWatcher&) = delete;

  // The handler from now on. When SetHandler returns, the former one neither runs nor will.
  void SetHandler(std::function<void()> handler) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();

  sigset_t former_mask_;
  std::atomic<bool> ends_ = false;
  Mutex mutex_;
  std::function<void()> handler_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace trireme::client
