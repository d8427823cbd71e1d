// Where the supervising thread hears of everything: messages of the ranks, deaths of processes, orders of the server.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/coordinator/control_stream.h"
#include "trireme/worker/v1/control.pb.h"

namespace trireme::server {

// A rank has dialled in; its token has been checked.
struct HelloEvent {
  worker::v1::Hello hello;
  std::shared_ptr<ControlStream> stream;
};
struct MessageEvent {
  worker::v1::ConnectRequest message;
};
struct StreamEndEvent {};
// It does not keep to the protocol.
struct BrokenEvent {
  std::string why;  // after the rank's name: "takes no messages"
};

struct RankEvent {
  PeerId peer;
  std::variant<HelloEvent, MessageEvent, StreamEndEvent, BrokenEvent> what;
};

// What the server wants of the group. Orders are never taken back; a later one of these overrules an earlier.
enum class Order { kRun, kDrain, kStop };

// Thread-safe; one thread waits.
class Mailbox {
 public:
  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void Post(RankEvent event);

  // `deadline` of MonotonicNow(), for kDrain.
  void Give(Order order, absl::Time deadline = absl::InfinitePast());
  Order order() const;
  absl::Time drain_deadline() const;

  // Returns what has come when something has, when one of `fds` is readable, when an order is given, or at `wake`.
  std::vector<RankEvent> Wait(std::span<const int> fds, absl::Time wake);

 private:
  void Wake();

  const int eventfd_;
  mutable Mutex mutex_;
  std::vector<RankEvent> events_ ABSL_GUARDED_BY(mutex_);
  Order order_ ABSL_GUARDED_BY(mutex_) = Order::kRun;
  absl::Time drain_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace trireme::server
