// Threads for work that takes milliseconds, so that gRPC's few threads never do it.
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace trireme::server {

// Runs tasks in order of arrival. Thread-safe.
class WorkQueue {
 public:
  // REQUIRES: num_threads > 0.
  WorkQueue(int num_threads, std::size_t max_waiting);

  // Runs what waits, then ends.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // False, and `task` is not run, where `max_waiting` tasks wait already.
  bool TryPost(std::function<void()> task);

 private:
  void RunTasks();

  const std::size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace trireme::server
