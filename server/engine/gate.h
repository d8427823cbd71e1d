// Where callers' threads meet the engine's: what callers are told at once (who is alive, whether the group is up), and
// the inbox of events for the loop. Whatever changes the one and adds to the other does both under one lock, so the
// loop sees events in the order in which callers were answered.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/engine/step_link.h"

namespace trireme::server {

// Tokens that a sequence may have in all: the model's limit, or what the group's smallest KV group can hold. (The last
// token needs no block: nothing is computed from it.)
std::uint32_t LengthLimit(const EngineOptions& options, const GroupCapacity& capacity);

// Events for the loop.
struct SubmitEvent {
  std::uint64_t key = 0;  // of its first sequence; the others' follow. Grows in order of arrival
  Request request;
  std::shared_ptr<RequestObserver> observer;
  std::chrono::steady_clock::time_point submitted;
};
// Here and in GroupDownEvent, what a status says and not the status: ThreadSanitizer does not see the counter of
// references in Debian's Abseil, so one that two threads share looks like a race.
struct CancelEvent {
  std::uint64_t key = 0;  // as in the SubmitEvent
  absl::StatusCode code = absl::StatusCode::kCancelled;
  std::string why;
};
struct AbortEvent {
  std::uint64_t key = 0;  // as in the SubmitEvent
};
struct GroupUpEvent {
  GroupCapacity capacity;
};
struct GroupDownEvent {
  std::string cause;
  bool for_good = false;
};
struct StopEvent {};
using Event = std::variant<SubmitEvent, CancelEvent, AbortEvent, GroupUpEvent, StepResult, GroupDownEvent, StopEvent>;

// Thread-safe.
class Gate {
 public:
  explicit Gate(const EngineOptions& options) : options_(options) {}

  // For callers: as in Engine.
  absl::Status Submit(Request request, std::shared_ptr<RequestObserver> observer) ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel(const std::string& id, const RequestObserver* observer, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool Abort(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);
  bool WaitUntilIdle(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  Loads loads() ABSL_LOCKS_EXCLUDED(mutex_);

  // For the link and for Stop. After Stop no event is taken in.
  void GroupUp(const GroupCapacity& capacity) ABSL_LOCKS_EXCLUDED(mutex_);
  void GroupDown(const absl::Status& cause, bool for_good) ABSL_LOCKS_EXCLUDED(mutex_);
  void Put(StepResult result) ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // For the loop. Waits until there are events or `deadline` has passed; returns those there are, in order.
  std::vector<Event> Take(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  // What loads() says from now on of what runs, of blocks and preemptions.
  void Publish(const Loads& loads) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, and one of the sequences has ended.
  void EndSequence(const Loads& loads) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, and the request, whose sequences have ended, is no longer alive: its id may be used again.
  void Forget(const std::string& id, const Loads& loads) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Alive {
    std::uint64_t key = 0;
    const RequestObserver* observer = nullptr;
  };

  void PutLocked(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(const Request& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint32_t NumWaitingSequences() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions options_;
  Mutex mutex_;
  CondVar has_event_;
  CondVar is_idle_;
  std::vector<Event> inbox_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Alive> alive_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t num_sequences_ ABSL_GUARDED_BY(mutex_) = 0;  // of those alive, that have not ended
  std::uint64_t next_key_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool group_up_ ABSL_GUARDED_BY(mutex_) = false;
  GroupCapacity capacity_ ABSL_GUARDED_BY(mutex_);
  std::string why_down_ ABSL_GUARDED_BY(mutex_) = "not loaded yet";
  Loads published_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trireme::server
