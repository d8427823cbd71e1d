// Threads for work that takes milliseconds, so that gRPC's few threads never do it.
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace trireme::server {

// Runs tasks in order of arrival. Thread-safe.
class WorkQueue {
 public:
  // REQUIRES: num_threads > 0.
  WorkQueue(int num_threads, std::size_t max_waiting, std::size_t max_waiting_bytes);

  // Runs what waits, then ends.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // `num_bytes` is what `task` holds while it waits. False, and it is not run, where `max_waiting` tasks wait already, or
  // with it more than `max_waiting_bytes` bytes would.
  bool TryPost(std::size_t num_bytes, std::function<void()> task);

 private:
  void RunTasks();

  struct Task {
    std::size_t num_bytes = 0;
    std::function<void()> run;
  };

  const std::size_t max_waiting_;
  const std::size_t max_waiting_bytes_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> waiting_ ABSL_GUARDED_BY(mutex_);
  std::size_t num_waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// For a call whose task is not taken.
absl::Status TextQueueFullError();

}  // namespace trireme::server
