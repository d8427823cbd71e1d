#include "server/coordinator/worker_group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/cpu.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/coordinator/control_host.h"
#include "server/coordinator/generation.h"
#include "server/coordinator/mailbox.h"
#include "server/coordinator/monotonic_clock.h"
#include "server/coordinator/restart_policy.h"
#include "server/coordinator/roster.h"
#include "server/coordinator/step_channel.h"

namespace trireme::server {

// One thread that runs one generation after another, and the parts it shares with gRPC's threads and the engine's.
class WorkerGroup::Supervisor : public ControlEvents {
 public:
  Supervisor(const WorkerGroupOptions& options, StepListener* listener)
      : options_(options), policy_(options.restarts), channel_(listener, [this](PeerId peer, std::string why) {
          mailbox_.Post({peer, BrokenEvent{std::move(why)}});
        }) {}
  ~Supervisor() override { Finish(Order::kStop, absl::InfinitePast()); }

  absl::Status Start() {
    // Workers are strangers too until they have spoken, and all of them come at the same time.
    const std::size_t max_strangers = 16 + 2 * static_cast<std::size_t>(options_.tp_degree);
    ASSIGN_OR_RETURN(host_, ControlHost::Start(this, {.max_strangers = max_strangers}));
    MutexLock lock(join_mutex_);
    thread_ = std::thread([this] { Main(); });
    return absl::OkStatus();
  }

  // Gives the order and waits for the thread's end, at which no process is left.
  void Finish(Order order, absl::Time drain_deadline) {
    mailbox_.Give(order, drain_deadline);
    MutexLock lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  // How the group's life went at its end. After Finish.
  const absl::Status& end() const { return end_; }

  StepChannel& channel() { return channel_; }

  void ExcuseLosses(std::span<const std::uint64_t> generations) {
    MutexLock lock(policy_mutex_);
    policy_.Excuse(generations);
  }

  GroupStatus status() const {
    MutexLock lock(status_mutex_);
    return status_;
  }

  absl::StatusOr<PeerId> OnHello(const worker::v1::Hello& hello, std::shared_ptr<ControlStream> stream) override {
    ASSIGN_OR_RETURN(const PeerId peer, roster_.Admit(hello.spawn_token()));
    mailbox_.Post({peer, HelloEvent{hello, std::move(stream)}});
    return peer;
  }
  void OnMessage(PeerId peer, worker::v1::ConnectRequest message) override {
    if (message.has_step_result() && peer.rank == 0) {
      channel_.OnResult(peer, message.step_result());
    } else {
      mailbox_.Post({peer, MessageEvent{std::move(message)}});
    }
  }
  void OnEnd(PeerId peer) override { mailbox_.Post({peer, StreamEndEvent{}}); }

 private:
  void Main() {
    for (std::uint64_t number = 1; mailbox_.order() == Order::kRun; ++number) {
      Generation generation(Context(), number);
      BeginStatus(number);
      const std::optional<Cause> cause = generation.RunUntilLost();
      if (!cause) {
        end_ = FollowOrder(generation);
        return;
      }
      const std::optional<absl::Duration> backoff = cause->is_final ? std::nullopt : BackoffAfter(number);
      Lose(generation, *cause, /*for_good=*/!backoff);
      if (!backoff) {
        end_ = cause->status;
        options_.on_given_up(cause->status);
        return;
      }
      AwaitOrder(MonotonicNow() + *backoff);
    }
  }

  std::optional<absl::Duration> BackoffAfter(std::uint64_t lost_generation) {
    MutexLock lock(policy_mutex_);
    return policy_.OnLoss(lost_generation, MonotonicNow());
  }

  GenerationContext Context() {
    return {.options = options_,
            .control_address = host_->address(),
            .roster = roster_,
            .mailbox = mailbox_,
            .channel = channel_,
            .publish = [this](const std::vector<RankStatus>& ranks, bool is_up) {
              MutexLock lock(status_mutex_);
              status_.is_up = is_up;
              status_.ranks = ranks;
            }};
  }

  absl::Status FollowOrder(Generation& generation) {
    absl::Status status;
    if (mailbox_.order() == Order::kDrain) status = generation.Drain(mailbox_.drain_deadline());
    channel_.Close();
    generation.End(absl::ZeroDuration());
    return status;
  }

  void Lose(Generation& generation, const Cause& cause, bool for_good) {
    LogError(for_good ? "worker group lost for good" : "worker group lost; it will be started again",
             {{"cause", cause.status.ToString()}});
    EndStatus(cause, for_good);
    channel_.CloseAndTell(cause.status, for_good);
    generation.End(options_.timeouts.kill_grace);
  }

  void AwaitOrder(absl::Time until) {
    while (mailbox_.order() == Order::kRun && MonotonicNow() < until) mailbox_.Wait({}, until);
  }

  void BeginStatus(std::uint64_t number) {
    MutexLock lock(status_mutex_);
    status_.generation = number;
    status_.num_restarts = number - 1;
  }
  void EndStatus(const Cause& cause, bool for_good) {
    MutexLock lock(status_mutex_);
    status_.is_up = false;  // from now on, though the processes may have a moment left to leave
    status_.is_given_up = for_good;
    status_.last_loss = {cause, absl::Now()};
  }

  const WorkerGroupOptions& options_;
  Mutex policy_mutex_;
  RestartPolicy policy_ ABSL_GUARDED_BY(policy_mutex_);
  Roster roster_;
  Mailbox mailbox_;
  StepChannel channel_;
  mutable Mutex status_mutex_;
  GroupStatus status_ ABSL_GUARDED_BY(status_mutex_);
  Mutex join_mutex_;
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
  absl::Status end_;                   // written by the thread, read after its end
  std::unique_ptr<ControlHost> host_;  // last: its threads use all of the above
};

int DefaultThreadsPerRank(int tp_degree) { return std::max(UsableCpus() / tp_degree, 1); }

WorkerGroup::WorkerGroup(WorkerGroupOptions options) : options_(std::move(options)) {
  CHECK_GT(options_.tp_degree, 0);
  CHECK_LT(options_.timeouts.collective_timeout, options_.timeouts.step_deadline);
}

WorkerGroup::~WorkerGroup() { Stop(); }

absl::Status WorkerGroup::Start(StepListener* listener) {
  CHECK(supervisor_ == nullptr) << "Start was called twice";
  supervisor_ = std::make_unique<Supervisor>(options_, listener);
  return supervisor_->Start();
}

void WorkerGroup::Send(const StepCommand& command) { supervisor_->channel().Send(command); }
void WorkerGroup::ExcuseLosses(std::span<const std::uint64_t> generations) { supervisor_->ExcuseLosses(generations); }

absl::Status WorkerGroup::Drain(absl::Time deadline) {
  if (supervisor_ == nullptr) return absl::OkStatus();
  supervisor_->Finish(Order::kDrain, MonotonicNow() + (deadline - absl::Now()));
  return supervisor_->end();
}

void WorkerGroup::Stop() {
  if (supervisor_ != nullptr) supervisor_->Finish(Order::kStop, absl::InfinitePast());
}

GroupStatus WorkerGroup::status() const { return supervisor_ == nullptr ? GroupStatus() : supervisor_->status(); }

}  // namespace trireme::server
