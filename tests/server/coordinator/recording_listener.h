// A StepListener that keeps what it is told, for tests to wait for.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "base/mutex.h"
#include "server/engine/step_link.h"

namespace trireme::server {

class RecordingListener : public StepListener {
 public:
  struct Down {
    absl::Status cause;
    bool for_good = false;
  };

  void OnGroupUp(const GroupCapacity& capacity) override { Put(&ups_, capacity); }
  void OnStepResult(StepResult result) override { Put(&results_, std::move(result)); }
  void OnGroupDown(const absl::Status& cause, bool for_good) override { Put(&downs_, {cause, for_good}); }

  // The next of its kind; nullopt if it does not come in time.
  std::optional<GroupCapacity> NextUp(absl::Duration patience = absl::Seconds(30)) { return Take(&ups_, patience); }
  std::optional<StepResult> NextResult(absl::Duration patience = absl::Seconds(30)) {
    return Take(&results_, patience);
  }
  std::optional<Down> NextDown(absl::Duration patience = absl::Seconds(30)) { return Take(&downs_, patience); }

 private:
  template <typename T>
  void Put(std::deque<T>* queue, T value) {
    MutexLock lock(mutex_);
    queue->push_back(std::move(value));
    changed_.SignalAll();
  }
  template <typename T>
  std::optional<T> Take(std::deque<T>* queue, absl::Duration patience) {
    const absl::Time deadline = absl::Now() + patience;
    MutexLock lock(mutex_);
    while (queue->empty() && changed_.WaitUntil(mutex_, deadline)) continue;
    if (queue->empty()) return std::nullopt;
    T value = std::move(queue->front());
    queue->pop_front();
    return value;
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<GroupCapacity> ups_;
  std::deque<StepResult> results_;
  std::deque<Down> downs_;
};

}  // namespace trireme::server
