#include "server/engine/gate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::server {
namespace {

absl::Status CheckRequest(const Request& request, const EngineOptions& options) {
  if (request.prompt.empty()) return absl::InvalidArgumentError("the prompt has no tokens; expected at least 1");
  if (request.prompt.size() >= options.max_model_len) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", request.prompt.size(), " tokens; the model's context of ",
                     options.max_model_len, " takes at most ", options.max_model_len - 1, " and one to generate"));
  }
  if (request.stopping.max_tokens == 0) return absl::InvalidArgumentError("max_tokens is 0; expected at least 1");
  if (request.n == 0) return absl::InvalidArgumentError("n is 0; expected at least 1");
  return absl::OkStatus();
}

}  // namespace

std::uint32_t LengthLimit(const EngineOptions& options, const GroupCapacity& capacity) {
  const std::uint64_t blocks = *std::min_element(capacity.num_kv_blocks.begin(), capacity.num_kv_blocks.end());
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(options.max_model_len, blocks * options.limits.kv_block_tokens + 1));
}

absl::Status Gate::CheckOpen() const {
  if (stopped_) return absl::UnavailableError("the server is stopping");
  if (draining_) return absl::UnavailableError("the server is draining");
  if (!group_up_) return absl::UnavailableError(absl::StrCat("the worker group is not up: ", why_down_));
  return absl::OkStatus();
}

absl::Status Gate::CheckRoom(const Request& request) const {
  const std::uint32_t limit = LengthLimit(options_, capacity_);
  if (request.prompt.size() >= limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the prompt has ", request.prompt.size(), " tokens; the KV cache can hold ", limit - 1));
  }
  if (alive_.contains(request.id)) {
    return absl::AlreadyExistsError(absl::StrCat("a request with id \"", request.id, "\" is running"));
  }
  if (const std::uint32_t waiting = NumWaitingSequences(); waiting >= options_.max_waiting_sequences) {
    return QueueFullError(absl::StrCat("the queue is full: ", waiting,
                                       " sequences wait; requests are let in while fewer than ",
                                       options_.max_waiting_sequences, " do"));
  }
  return absl::OkStatus();
}

// Those the loop has not taken out of the inbox wait, too.
std::uint32_t Gate::NumWaitingSequences() const {
  return num_sequences_ - std::min(num_sequences_, published_.running_sequences);
}

absl::Status Gate::Submit(Request request, std::shared_ptr<RequestObserver> observer) {
  RETURN_IF_ERROR(CheckRequest(request, options_));
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  RETURN_IF_ERROR(CheckRoom(request));
  const std::uint64_t key = std::exchange(next_key_, next_key_ + request.n);
  alive_[request.id] = {.key = key, .observer = observer.get()};
  num_sequences_ += request.n;
  PutLocked(SubmitEvent{.key = key,
                        .request = std::move(request),
                        .observer = std::move(observer),
                        .submitted = std::chrono::steady_clock::now()});
  return absl::OkStatus();
}

void Gate::Cancel(const std::string& id, const RequestObserver* observer, const absl::Status& why) {
  CHECK(!why.ok()) << "a request is cancelled with OK";
  MutexLock lock(mutex_);
  const auto found = alive_.find(id);
  if (found == alive_.end() || found->second.observer != observer) return;
  PutLocked(CancelEvent{.key = found->second.key, .code = why.code(), .why = std::string(why.message())});
}

bool Gate::Abort(const std::string& id) {
  MutexLock lock(mutex_);
  const auto found = alive_.find(id);
  if (found == alive_.end()) return false;
  PutLocked(AbortEvent{found->second.key});
  return true;
}

void Gate::Drain() {
  MutexLock lock(mutex_);
  draining_ = true;
}

bool Gate::WaitUntilIdle(absl::Time deadline) {
  MutexLock lock(mutex_);
  while (!alive_.empty()) {
    if (!is_idle_.WaitUntil(mutex_, deadline)) return alive_.empty();
  }
  return true;
}

Loads Gate::loads() {
  MutexLock lock(mutex_);
  Loads loads = published_;
  const auto alive = static_cast<std::uint32_t>(alive_.size());
  loads.running_requests = std::min(loads.running_requests, alive);
  loads.waiting_requests = alive - loads.running_requests;
  loads.running_sequences = std::min(loads.running_sequences, num_sequences_);
  loads.waiting_sequences = NumWaitingSequences();
  loads.group_up = group_up_;
  loads.draining = draining_;
  return loads;
}

void Gate::GroupUp(const GroupCapacity& capacity) {
  CHECK(!capacity.num_kv_blocks.empty()) << "a group without KV groups";
  MutexLock lock(mutex_);
  CHECK(!group_up_) << "a group came up while one was up";
  group_up_ = true;
  capacity_ = capacity;
  PutLocked(GroupUpEvent{capacity});
}

void Gate::GroupDown(const absl::Status& cause, bool for_good) {
  MutexLock lock(mutex_);
  group_up_ = false;
  why_down_ = std::string(cause.message());
  PutLocked(GroupDownEvent{why_down_, for_good});
}

void Gate::Put(StepResult result) {
  MutexLock lock(mutex_);
  PutLocked(std::move(result));
}

void Gate::Stop() {
  MutexLock lock(mutex_);
  PutLocked(StopEvent{});
  stopped_ = true;
}

void Gate::PutLocked(Event event) {
  if (stopped_) return;
  inbox_.push_back(std::move(event));
  has_event_.SignalAll();
}

std::vector<Event> Gate::Take(absl::Time deadline) {
  MutexLock lock(mutex_);
  while (inbox_.empty() && has_event_.WaitUntil(mutex_, deadline)) {
  }
  return std::exchange(inbox_, {});
}

void Gate::Publish(const Loads& loads) {
  MutexLock lock(mutex_);
  published_ = loads;
}

void Gate::EndSequence(const Loads& loads) {
  MutexLock lock(mutex_);
  published_ = loads;
  CHECK_GT(num_sequences_, 0u);
  --num_sequences_;
}

void Gate::Forget(const std::string& id, const Loads& loads) {
  MutexLock lock(mutex_);
  published_ = loads;
  CHECK_EQ(alive_.erase(id), 1u);
  if (alive_.empty()) is_idle_.SignalAll();
}

}  // namespace trireme::server
