#include "worker/control/periodic.h"

#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"

namespace trireme::worker {

Periodic::Periodic(absl::Duration interval, std::function<void()> action)
    : interval_(interval), action_(std::move(action)) {
  CHECK_GT(interval_, absl::ZeroDuration());
  thread_ = std::thread([this] { Main(); });
}

Periodic::~Periodic() {
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void Periodic::Main() {
  while (AwaitNext()) action_();
}

bool Periodic::AwaitNext() {
  const absl::Time next = absl::Now() + interval_;
  MutexLock lock(mutex_);
  while (!is_ending_) {
    if (!changed_.WaitUntil(mutex_, next)) break;
  }
  return !is_ending_;
}

}  // namespace trireme::worker
