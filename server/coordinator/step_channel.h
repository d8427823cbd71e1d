// What is done for each step: commands out to all ranks, results in from rank 0. Apart from the supervision, so that a
// step takes no detour over its thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/coordinator/control_stream.h"
#include "server/engine/step_link.h"

namespace trireme::server {

// Thread-safe. The listener is called under a lock: one call at a time, and none after the one that closes.
class StepChannel {
 public:
  // Called with a rank that does not keep to the protocol: it takes no steps, or its results are not in order.
  using OnBroken = std::function<void(PeerId peer, std::string why)>;

  // `listener` outlives the channel.
  StepChannel(StepListener* listener, OnBroken on_broken) : listener_(listener), on_broken_(std::move(on_broken)) {}

  // The group is up: `streams` in rank order. Tells the listener.
  void Open(GroupCapacity capacity, std::vector<std::shared_ptr<ControlStream>> streams);

  // What is sent from now on goes nowhere; results are still heard.
  void CloseSending();
  // Nor are results.
  void Close();
  // The same, and tells the listener why.
  void CloseAndTell(const absl::Status& cause, bool for_good);

  // To all ranks, in the same order for all. A step for a generation that is not open is dropped.
  // REQUIRES: the number is that of the step before plus one.
  void Send(const StepCommand& command);
  // Of rank 0. What comes from a generation that is not open is dropped.
  void OnResult(PeerId peer, const worker::v1::StepResult& result);

  // Number of the last step sent to the open group; 0 before the first.
  std::uint64_t last_sent() const;

 private:
  StepListener* const listener_;
  const OnBroken on_broken_;

  // Where both are held, this one was taken first.
  Mutex listen_mutex_;
  std::uint64_t heard_generation_ ABSL_GUARDED_BY(listen_mutex_) = 0;  // 0 while closed
  std::uint64_t last_result_ ABSL_GUARDED_BY(listen_mutex_) = 0;

  mutable Mutex send_mutex_;
  std::uint64_t generation_ ABSL_GUARDED_BY(send_mutex_) = 0;
  std::uint64_t last_sent_ ABSL_GUARDED_BY(send_mutex_) = 0;
  std::vector<std::shared_ptr<ControlStream>> streams_ ABSL_GUARDED_BY(send_mutex_);  // empty while closed
};

}  // namespace trireme::server
