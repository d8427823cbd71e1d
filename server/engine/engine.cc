#include "server/engine/engine.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/engine/engine_loop.h"
#include "server/engine/gate.h"

namespace trireme::server {
namespace {

absl::Status RequirePositive(std::uint32_t value, const char* name) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is 0; expected at least 1"));
}

}  // namespace

absl::Status Validate(const EngineOptions& options) {
  RETURN_IF_ERROR(RequirePositive(options.limits.max_num_seqs, "max_num_seqs"));
  RETURN_IF_ERROR(RequirePositive(options.limits.kv_block_tokens, "kv_block_tokens"));
  RETURN_IF_ERROR(RequirePositive(options.max_steps_in_flight, "max_steps_in_flight"));
  RETURN_IF_ERROR(RequirePositive(options.max_waiting_sequences, "max_waiting_sequences"));
  if (options.limits.max_num_batched_tokens < options.limits.max_num_seqs) {
    return absl::InvalidArgumentError(absl::StrCat("max_num_batched_tokens is ", options.limits.max_num_batched_tokens,
                                                   "; expected at least max_num_seqs (", options.limits.max_num_seqs,
                                                   "), so that every sequence can get a token in every step"));
  }
  if (options.max_step_stretch.has_value() && !(*options.max_step_stretch >= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("max_step_stretch is ", *options.max_step_stretch,
                                                   "; expected at least 1, which lets a prompt token by in each step"));
  }
  if (options.limits.max_logit_rows < options.limits.max_num_seqs) {
    return absl::InvalidArgumentError(absl::StrCat("max_logit_rows is ", options.limits.max_logit_rows,
                                                   "; expected at least max_num_seqs (", options.limits.max_num_seqs,
                                                   "), so that every sequence can sample in every step"));
  }
  if (options.max_model_len < 2) {
    return absl::InvalidArgumentError(absl::StrCat("max_model_len is ", options.max_model_len,
                                                   "; expected at least 2: a prompt's token and one more"));
  }
  return absl::OkStatus();
}

class Engine::Impl {
 public:
  Impl(const EngineOptions& options, EngineStatistics* statistics)
      : options_(options), statistics_(statistics), gate_(options) {}

  void Start(StepLink* link) {
    CHECK(!thread_.joinable()) << "Start is called twice";
    thread_ = std::thread([this, link] { EngineLoop(options_, &gate_, link, statistics_).Run(); });
  }

  void Stop() {
    gate_.Stop();
    MutexLock lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  Gate& gate() { return gate_; }

 private:
  const EngineOptions options_;
  EngineStatistics* const statistics_;
  Gate gate_;
  Mutex join_mutex_;
  std::thread thread_;
};

Engine::Engine(const EngineOptions& options, EngineStatistics* statistics) {
  CHECK_OK(Validate(options));
  impl_ = std::make_unique<Impl>(options, statistics);
}

Engine::~Engine() { Stop(); }

void Engine::Start(StepLink* link) { impl_->Start(link); }
void Engine::Stop() { impl_->Stop(); }
void Engine::Drain() { impl_->gate().Drain(); }
bool Engine::WaitUntilIdle(absl::Time deadline) const { return impl_->gate().WaitUntilIdle(deadline); }
Loads Engine::loads() const { return impl_->gate().loads(); }

absl::Status Engine::Submit(Request request, std::shared_ptr<RequestObserver> observer) {
  return impl_->gate().Submit(std::move(request), std::move(observer));
}

void Engine::Cancel(const std::string& id, const RequestObserver* observer, const absl::Status& why) {
  impl_->gate().Cancel(id, observer, why);
}

bool Engine::Abort(const std::string& id) { return impl_->gate().Abort(id); }

void Engine::OnGroupUp(const GroupCapacity& capacity) { impl_->gate().GroupUp(capacity); }
void Engine::OnStepResult(StepResult result) { impl_->gate().Put(std::move(result)); }
void Engine::OnGroupDown(const absl::Status& cause, bool for_good) { impl_->gate().GroupDown(cause, for_good); }

}  // namespace trireme::server
