// Something that is done every so often, on a thread of its own.
#pragma once
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace trireme::worker {

class Periodic {
 public:
  // Calls `action` first after one `interval` (> 0).
  Periodic(absl::Duration interval, std::function<void()> action);
  // Waits for a call that runs; none begins after it.
  ~Periodic();
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  void Main();
  // False when it is time to end.
  bool AwaitNext();

  const absl::Duration interval_;
  const std::function<void()> action_;
  Mutex mutex_;
  CondVar changed_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace trireme::worker
