// The rank's working thread: loads the model, then runs steps in the order in which they come. Knows no stream, so
// that it can be tested without one.
//
// Loading and steps share one thread since a device's context belongs to the thread that made it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "trireme/worker/v1/control.pb.h"
#include "worker/collective_times.h"
#include "worker/executor.h"

namespace trireme::worker {

// Where a rank's messages go. Thread-safe. What is sent after the stream's end is dropped: its end is noticed where it
// is read.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void Send(const v1::ConnectRequest& message) = 0;
};

// Thread-safe.
class StepLoop {
 public:
  // Steps that may wait. Two are in flight at a time: more is a server that has lost count.
  static constexpr std::size_t kMaxWaiting = 8;

  struct Options {
    bool sends_results = false;  // rank 0
    // Makes the executor, on the loop's thread.
    std::function<absl::StatusOr<std::unique_ptr<Executor>>(LoadProgress&)> load;
    // Of the communicator that the executor uses; asked on the loop's thread.
    std::function<CollectiveTimes()> collective_times = [] { return CollectiveTimes(); };
    // Called once, on the loop's thread, when it is about to end: after a Failure was sent, or when all is drained.
    // What is to be told to peers (an abort) belongs here: the cause is on its way before its consequences.
    std::function<void(const absl::Status& status)> on_end;
  };

  // Starts the thread. `sink` outlives the loop.
  StepLoop(Options options, MessageSink* sink);
  // REQUIRES: the thread is about to end: on_end was called, or Stop and whatever a step waits for was aborted.
  ~StepLoop();

  // The next step. FAILED_PRECONDITION before Ready or after Drain, RESOURCE_EXHAUSTED beyond kMaxWaiting,
  // INVALID_ARGUMENT for a number that is not the next: the server is then broken, and so is the stream.
  absl::Status Push(v1::Step step);

  // No steps follow: the loop ends with OK after those it has.
  void Drain();

  // The loop ends with `reason` after the step that runs; what waits is dropped, nothing more is sent.
  void Stop(absl::Status reason);

  // Why it ended: OK when drained. Empty if it still runs at `deadline`.
  std::optional<absl::Status> WaitForEnd(absl::Time deadline);

  // What there is to say now.
  v1::Heartbeat heartbeat() const;

 private:
  void Main();
  // Until there is nothing more to do; the error that ended it.
  absl::Status LoadAndRun();
  absl::Status Load();
  absl::Status RunStep(const v1::Step& step);
  void CountStep(absl::Duration time);
  // Waits for it. Empty when all is drained; Stop's reason.
  absl::StatusOr<std::optional<v1::Step>> NextStep();
  void SendFailure(const absl::Status& status);

  const Options options_;
  MessageSink* const sink_;
  LoadProgress progress_;
  std::unique_ptr<Executor> executor_;  // of the loop's thread, as is the next
  CollectiveTimes times_of_loading_;
  std::atomic<std::uint64_t> last_begun_ = 0;
  std::atomic<std::uint64_t> last_finished_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<v1::Step> waiting_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t last_pushed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);  // not OK once stopped
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  absl::Duration step_time_ ABSL_GUARDED_BY(mutex_);          // of all steps that are finished
  CollectiveTimes collective_times_ ABSL_GUARDED_BY(mutex_);  // likewise

  std::thread thread_;
};

}  // namespace trireme::worker
