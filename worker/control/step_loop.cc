#include "worker/control/step_loop.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/duration_message.h"
#include "base/status_macros.h"
#include "worker/control/failure_message.h"

namespace trireme::worker {

StepLoop::StepLoop(Options options, MessageSink* sink) : options_(std::move(options)), sink_(sink) {
  thread_ = std::thread([this] { Main(); });
}

StepLoop::~StepLoop() { thread_.join(); }

absl::Status StepLoop::Push(v1::Step step) {
  MutexLock lock(mutex_);
  if (!is_ready_ || is_draining_) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step.number(), " came ", is_draining_ ? "after Drain" : "before the rank was ready"));
  }
  if (step.number() != last_pushed_ + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step.number(), " came where step ", last_pushed_ + 1, " was due"));
  }
  if (waiting_.size() >= kMaxWaiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat("step ", step.number(), " came while ", waiting_.size(), " were waiting"));
  }
  last_pushed_ = step.number();
  waiting_.push_back(std::move(step));
  changed_.SignalAll();
  return absl::OkStatus();
}

void StepLoop::Drain() {
  MutexLock lock(mutex_);
  is_draining_ = true;
  changed_.SignalAll();
}

void StepLoop::Stop(absl::Status reason) {
  CHECK(!reason.ok());
  MutexLock lock(mutex_);
  if (stopped_.ok()) stopped_ = std::move(reason);
  changed_.SignalAll();
}

std::optional<absl::Status> StepLoop::WaitForEnd(absl::Time deadline) {
  MutexLock lock(mutex_);
  while (!end_ && changed_.WaitUntil(mutex_, deadline)) continue;
  return end_;
}

v1::Heartbeat StepLoop::heartbeat() const {
  v1::Heartbeat heartbeat;
  heartbeat.set_loaded_bytes(progress_.loaded_bytes);
  heartbeat.set_total_bytes(progress_.total_bytes);
  heartbeat.set_last_step_finished(last_finished_);  // read first: never ahead of the other
  heartbeat.set_last_step_begun(last_begun_);
  v1::StepTimes& times = *heartbeat.mutable_step_times();
  MutexLock lock(mutex_);
  *times.mutable_steps() = ToMessage(step_time_);
  times.set_num_collectives(collective_times_.count);
  *times.mutable_collectives() = ToMessage(collective_times_.total);
  *times.mutable_collective_waits() = ToMessage(collective_times_.wait);
  *times.mutable_lateness() = ToMessage(collective_times_.lateness);
  return heartbeat;
}

void StepLoop::Main() {
  absl::Status status = LoadAndRun();
  options_.on_end(status);
  executor_.reset();
  MutexLock lock(mutex_);
  end_ = std::move(status);
  changed_.SignalAll();
}

absl::Status StepLoop::LoadAndRun() {
  if (absl::Status status = Load(); !status.ok()) {
    SendFailure(status);
    return status;
  }
  while (true) {
    const absl::StatusOr<std::optional<v1::Step>> step = NextStep();
    RETURN_IF_ERROR(step.status());
    if (!*step) return absl::OkStatus();
    if (absl::Status status = RunStep(**step); !status.ok()) {
      SendFailure(status);
      return status;
    }
  }
}

absl::Status StepLoop::Load() {
  ASSIGN_OR_RETURN(executor_, options_.load(progress_));
  times_of_loading_ = options_.collective_times();
  const ExecutorSizes sizes = executor_->sizes();
  v1::ConnectRequest message;
  v1::Ready& ready = *message.mutable_ready();
  ready.set_weight_bytes(sizes.weight_bytes);
  ready.set_bytes_read(sizes.bytes_read);
  ready.set_kv_cache_bytes(sizes.kv_cache_bytes);
  ready.mutable_num_kv_blocks()->Add(sizes.num_kv_blocks.begin(), sizes.num_kv_blocks.end());
  {
    MutexLock lock(mutex_);
    is_ready_ = true;  // before it is said, since the first step may come at once
  }
  sink_->Send(message);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::Step>> StepLoop::NextStep() {
  MutexLock lock(mutex_);
  while (stopped_.ok() && waiting_.empty() && !is_draining_) changed_.WaitUntil(mutex_, absl::InfiniteFuture());
  if (!stopped_.ok()) return stopped_;
  if (waiting_.empty()) return std::nullopt;
  std::optional<v1::Step> step = std::move(waiting_.front());
  waiting_.pop_front();
  return step;
}

absl::Status StepLoop::RunStep(const v1::Step& step) {
  last_begun_ = step.number();
  const auto begun = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(v1::StepResult result, executor_->Run(step));
  CountStep(absl::FromChrono(std::chrono::steady_clock::now() - begun));
  last_finished_ = step.number();
  if (!options_.sends_results) return absl::OkStatus();
  v1::ConnectRequest message;
  *message.mutable_step_result() = std::move(result);
  sink_->Send(message);
  return absl::OkStatus();
}

void StepLoop::CountStep(absl::Duration time) {
  const CollectiveTimes times = options_.collective_times() - times_of_loading_;
  MutexLock lock(mutex_);
  step_time_ += time;
  collective_times_ = times;
}

void StepLoop::SendFailure(const absl::Status& status) {
  v1::ConnectRequest message = FailureMessage(status);
  if (last_begun_ != last_finished_) message.mutable_failure()->set_step(last_begun_);
  sink_->Send(message);
}

}  // namespace trireme::worker
