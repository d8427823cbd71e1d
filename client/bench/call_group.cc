#include "client/bench/call_group.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <utility>

#include "base/check.h"

namespace trireme::client {

// One call. gRPC calls back one reaction at a time, from its own threads; Interrupt comes from any.
class CallGroup::Call final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(CallGroup* group, v1::GenerateRequest request, const CallPlan& plan)
      : group_(*group), request_(std::move(request)), cancel_after_tokens_(plan.cancel_after_tokens) {
    record_.due = plan.due;
    context_.set_deadline(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(plan.timeout));
  }

  void Start() {
    record_.sent = group_.clock_.Now();
    group_.stub_->async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void Interrupt() {
    is_interrupted_ = true;
    context_.TryCancel();
  }

 private:
  void OnReadDone(bool ok) override {
    const absl::Duration now = group_.clock_.Now();
    if (!ok) return;  // OnDone follows
    if (response_.has_complete()) {
      TakeComplete(response_.complete());
    } else {
      TakeChunk(response_.chunk(), now);
    }
    StartRead(&response_);
  }

  void TakeChunk(const v1::Chunk& chunk, absl::Duration now) {
    const auto num_tokens = static_cast<std::uint32_t>(chunk.token_ids_size());
    record_.prompt_tokens = chunk.usage().prompt_tokens();
    if (num_tokens == 0) return;
    record_.arrivals.push_back({.at = now, .num_tokens = num_tokens});
    record_.output_tokens += num_tokens;
    if (record_.arrivals.size() == 1) group_.OnBegun();
    if (!is_cancelled_ && cancel_after_tokens_ && record_.output_tokens >= *cancel_after_tokens_) {
      is_cancelled_ = true;
      context_.TryCancel();
    }
  }

  void TakeComplete(const v1::Complete& complete) {
    is_complete_ = true;
    record_.prompt_tokens = complete.usage().prompt_tokens();
    record_.output_tokens = complete.usage().completion_tokens();
    record_.cached_tokens = complete.usage().cached_tokens();
  }

  void OnDone(const grpc::Status& status) override {
    record_.ended = group_.clock_.Now();
    record_.outcome = OutcomeOf(status);
    if (record_.outcome == Outcome::kFailed) {
      // The codes have the same numbers.
      record_.status = status.ok()
                           ? absl::DataLossError("the stream ended without its last message")
                           : absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
    }
    group_.OnEnded(this, std::move(record_));  // this call may be freed from here on
  }

  Outcome OutcomeOf(const grpc::Status& status) const {
    if (status.ok()) return is_complete_ ? Outcome::kFinished : Outcome::kFailed;
    if (status.error_code() != grpc::StatusCode::CANCELLED) return Outcome::kFailed;
    if (is_cancelled_) return Outcome::kCancelled;
    return is_interrupted_ ? Outcome::kInterrupted : Outcome::kFailed;
  }

  CallGroup& group_;
  const v1::GenerateRequest request_;
  const std::optional<std::uint32_t> cancel_after_tokens_;
  std::atomic<bool> is_interrupted_ = false;
  bool is_cancelled_ = false;
  bool is_complete_ = false;
  RequestRecord record_;
  v1::GenerateResponse response_;
  grpc::ClientContext context_;
};

CallGroup::~CallGroup() {
  Interrupt();
  WaitUntilAllEnded();
  FreeEndedCalls();
}

void CallGroup::Start(v1::GenerateRequest request, const CallPlan& plan) {
  const auto call = std::make_shared<Call>(this, std::move(request), plan);
  FreeEndedCalls();
  bool is_interrupted = false;
  {
    MutexLock lock(mutex_);
    calls_.emplace(call.get(), call);
    ++progress_.active;
    is_interrupted = progress_.is_interrupted;
  }
  if (is_interrupted) call->Interrupt();
  call->Start();
}

void CallGroup::Interrupt() {
  std::map<const Call*, std::shared_ptr<Call>>
      calls;  // so that none goes while it is cancelled: not under our lock, see OnEnded
  {
    MutexLock lock(mutex_);
    progress_.is_interrupted = true;
    calls = calls_;
    changed_.SignalAll();
  }
  for (const auto& [key, call] : calls) call->Interrupt();
}

GroupProgress CallGroup::WaitUntil(const std::function<bool(const GroupProgress&)>& condition, absl::Time deadline) {
  MutexLock lock(mutex_);
  while (!condition(progress_) && changed_.WaitUntil(mutex_, deadline)) {
  }
  return progress_;
}

GroupProgress CallGroup::WaitUntilAllEnded() {
  return WaitUntil([](const GroupProgress& progress) { return progress.active == 0; }, absl::InfiniteFuture());
}

absl::Duration CallGroup::EndedAt(std::size_t n) {
  MutexLock lock(mutex_);
  CHECK_LT(n, records_.size());
  return records_[n].ended;
}

std::vector<RequestRecord> CallGroup::TakeRecords() {
  MutexLock lock(mutex_);
  return std::exchange(records_, {});
}

void CallGroup::FreeEndedCalls() {
  std::vector<std::shared_ptr<Call>> ended;  // freed when the lock was released
  MutexLock lock(mutex_);
  ended.swap(ended_calls_);
}

void CallGroup::OnBegun() {
  MutexLock lock(mutex_);
  ++progress_.begun;
  changed_.SignalAll();
}

void CallGroup::OnEnded(const Call* call, RequestRecord record) {
  MutexLock lock(mutex_);
  const auto found = calls_.find(call);
  CHECK(found != calls_.end());
  ended_calls_.push_back(std::move(found->second));
  calls_.erase(found);
  records_.push_back(std::move(record));
  --progress_.active;
  ++progress_.ended;
  changed_.SignalAll();
}

}  // namespace trireme::client
