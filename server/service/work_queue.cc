#include "server/service/work_queue.h"

#include <utility>

#include "base/check.h"
#include "server/engine/request.h"

namespace trireme::server {

WorkQueue::WorkQueue(int num_threads, std::size_t max_waiting, std::size_t max_waiting_bytes)
    : max_waiting_(max_waiting), max_waiting_bytes_(max_waiting_bytes) {
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

bool WorkQueue::TryPost(std::size_t num_bytes, std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (waiting_.size() >= max_waiting_ || num_waiting_bytes_ + num_bytes > max_waiting_bytes_) return false;
    waiting_.push_back({num_bytes, std::move(task)});
    num_waiting_bytes_ += num_bytes;
  }
  changed_.Signal();
  return true;
}

void WorkQueue::RunTasks() {
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !is_ending_) changed_.WaitUntil(mutex_, absl::InfiniteFuture());
      if (waiting_.empty()) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
      num_waiting_bytes_ -= task.num_bytes;
    }
    task.run();
  }
}

absl::Status TextQueueFullError() { return QueueFullError("too many requests wait to be tokenized"); }

}  // namespace trireme::server
