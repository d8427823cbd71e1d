#include "client/cli/interrupt.h"

#include <time.h>

#include <utility>

#include "base/check.h"

namespace trireme::client {
namespace {

sigset_t OnlyInterrupt() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

InterruptWatcher::InterruptWatcher() {
  const sigset_t interrupt = OnlyInterrupt();
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &interrupt, &former_mask_), 0);
  thread_ = std::thread([this] { Run(); });
}

InterruptWatcher::~InterruptWatcher() {
  ends_ = true;
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

void InterruptWatcher::SetHandler(std::function<void()> handler) {
  MutexLock lock(mutex_);
  handler_ = std::move(handler);
}

void InterruptWatcher::Run() {
  const sigset_t interrupt = OnlyInterrupt();
  const timespec patience = {.tv_sec = 0, .tv_nsec = 100'000'000};  // how late the end is noticed
  while (!ends_) {
    if (sigtimedwait(&interrupt, nullptr, &patience) != SIGINT) continue;
    MutexLock lock(mutex_);
    if (handler_) handler_();
  }
}

}  // namespace trireme::client
