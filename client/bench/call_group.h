// Generate calls that run at the same time, hundreds of them, and what came of each. No thread waits for a call: gRPC's
// own threads take the messages and note the time.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/bench/request_record.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::client {

// Time since it was made, by the monotonic clock. Copies tell the same time.
class RunClock {
 public:
  absl::Duration Now() const { return absl::FromChrono(std::chrono::steady_clock::now() - start_); }
  // For waits.
  absl::Time ToWallTime(absl::Duration at) const { return absl::Now() + (at - Now()); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct CallPlan {
  absl::Duration due = {};                                // for the record; the call starts at once
  absl::Duration timeout = {};                            // from now; DEADLINE_EXCEEDED after it
  std::optional<std::uint32_t> cancel_after_tokens = {};  // absent: never
};

// How far a group is.
struct GroupProgress {
  int active = 0;         // calls that have not ended
  std::size_t begun = 0;  // calls whose first token has come, ended ones too
  std::size_t ended = 0;
  bool is_interrupted = false;
};

// Thread-safe. Start and the destructor are not to be called from gRPC's callbacks: they free calls that have ended. If
// gRPC's threads did, the last of them could take the channel along, whose end waits for these threads.
class CallGroup {
 public:
  // `stub` outlives the group.
  CallGroup(v1::InferenceService::Stub* stub, const RunClock& clock) : stub_(stub), clock_(clock) {}
  ~CallGroup();  // interrupts what still runs, and waits for its end
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  void Start(v1::GenerateRequest request, const CallPlan& plan) ABSL_LOCKS_EXCLUDED(mutex_);

  // Cancels all calls, and those that Start makes from now on.
  void Interrupt() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until `condition` holds, at most until `deadline`; tells how things stood at the end of it. The condition is
  // looked at whenever a call begins or ends, and at an interrupt; no locks may be taken in it.
  GroupProgress WaitUntil(const std::function<bool(const GroupProgress&)>& condition, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until no call is active. Each ends by its own timeout.
  GroupProgress WaitUntilAllEnded() ABSL_LOCKS_EXCLUDED(mutex_);

  // When the call that was the `n`th to end ended, from 0. REQUIRES: so many have, and TakeRecords was not called yet.
  absl::Duration EndedAt(std::size_t n) ABSL_LOCKS_EXCLUDED(mutex_);

  // Of the calls that have ended, in the order in which they did. The group forgets them.
  std::vector<RequestRecord> TakeRecords() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Call;
  void FreeEndedCalls() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnBegun() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnded(const Call* call, RequestRecord record) ABSL_LOCKS_EXCLUDED(mutex_);

  v1::InferenceService::Stub* const stub_;
  const RunClock clock_;
  Mutex mutex_;
  CondVar changed_;
  GroupProgress progress_ ABSL_GUARDED_BY(mutex_);
  std::map<const Call*, std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);  // active
  std::vector<std::shared_ptr<Call>> ended_calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<RequestRecord> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trireme::client
