#include "server/coordinator/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "server/coordinator/monotonic_clock.h"

namespace trireme::server {

Mailbox::Mailbox() : eventfd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { CHECK_GE(eventfd_, 0) << std::strerror(errno); }

Mailbox::~Mailbox() { close(eventfd_); }

void Mailbox::Post(RankEvent event) {
  {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  }
  Wake();
}

void Mailbox::Give(Order order, absl::Time deadline) {
  {
    MutexLock lock(mutex_);
    if (order <= order_) return;
    order_ = order;
    drain_deadline_ = deadline;
  }
  Wake();
}

Order Mailbox::order() const {
  MutexLock lock(mutex_);
  return order_;
}

absl::Time Mailbox::drain_deadline() const {
  MutexLock lock(mutex_);
  return drain_deadline_;
}

std::vector<RankEvent> Mailbox::Wait(std::span<const int> fds, absl::Time wake) {
  std::vector<pollfd> polled = {{.fd = eventfd_, .events = POLLIN, .revents = 0}};
  for (const int fd : fds) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  PollUntil(std::move(polled), wake);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(eventfd_, &count, sizeof(count));
  MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

void Mailbox::Wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(eventfd_, &one, sizeof(one));
}

}  // namespace trireme::server
