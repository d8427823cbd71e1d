#include "server/service/work_queue.h"

#include <utility>

#include "base/check.h"

namespace trireme::server {

WorkQueue::WorkQueue(int num_threads, std::size_t max_waiting) : max_waiting_(max_waiting) {
  CHECK_GT(num_threads, 0);
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { RunTasks(); });
}

WorkQueue::~WorkQueue() {
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
  }
  changed_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkQueue::TryPost(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (waiting_.size() >= max_waiting_) return false;
    waiting_.push_back(std::move(task));
  }
  changed_.Signal();
  return true;
}

void WorkQueue::RunTasks() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !is_ending_) changed_.WaitUntil(mutex_, absl::InfiniteFuture());
      if (waiting_.empty()) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task();
  }
}

}  // namespace trireme::server
