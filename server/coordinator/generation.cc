#include "server/coordinator/generation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/duration_message.h"
#include "base/logging.h"
#include "base/version.h"
#include "server/coordinator/monotonic_clock.h"
#include "server/coordinator/worker_setup.h"

namespace trireme::server {
namespace {

namespace v1 = worker::v1;

// How long a weak cause waits for the one behind it: a message that is on its way, an exit that follows the stream's
// end.
constexpr absl::Duration kCausePatience = absl::Milliseconds(400);
// How often deadlines are looked at when nothing happens.
constexpr absl::Duration kTick = absl::Milliseconds(100);
// A thread that was not run for so long says nothing about the ranks.
constexpr absl::Duration kHeldUp = absl::Seconds(1);

// Errors of loading that the same files and flags would meet again.
bool IsBeyondRestarts(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:  // limits that do not fit; the former group has left its memory
      return true;
    default:
      return false;
  }
}

absl::StatusCode CodeOf(const v1::Failure& failure) {
  const auto code = static_cast<absl::StatusCode>(failure.code());
  return code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code;
}

RankTimes TimesFrom(const v1::StepTimes& message) {
  return {.steps = DurationFrom(message.steps()),
          .num_collectives = message.num_collectives(),
          .collectives = DurationFrom(message.collectives()),
          .collective_waits = DurationFrom(message.collective_waits()),
          .lateness = DurationFrom(message.lateness())};
}

}  // namespace

Generation::Generation(const GenerationContext& context, std::uint64_t number)
    : context_(context),
      number_(number),
      ranks_(context.options.tp_degree),
      first_cause_(kCausePatience),
      last_turn_(MonotonicNow()) {}

Generation::~Generation() { End(absl::ZeroDuration()); }

std::optional<Cause> Generation::RunUntilLost() {
  const auto never = [] { return false; };
  if (StartAll() && Await([this] { return ranks_.AllHaveSaidHello(); })) {
    ConfigureAll();
    if (Await([this] { return ranks_.AllAreReady(); }) && OpenChannel()) Await(never);
  }
  return first_cause_.Get(MonotonicNow());
}

bool Generation::StartAll() {
  const WorkerGroupOptions& options = context_.options;
  if (absl::Status status = ranks_.Start(options, context_.control_address, number_, context_.roster); !status.ok()) {
    const bool is_final = IsBeyondRestarts(status.code());
    AddCause({.kind = CauseKind::kNotStarted, .rank = {}, .status = std::move(status), .is_final = is_final});
    return false;
  }
  watch_.emplace(options.timeouts, ranks_.Names(), MonotonicNow());
  Publish();
  return true;
}

void Generation::ConfigureAll() {
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    v1::ConnectResponse message;
    *message.mutable_configure() = ConfigureMessage(context_.options, rank, number_);
    Send(rank, message);
    ranks_.OnConfigured(rank);
  }
  watch_->OnConfigured(MonotonicNow());
}

bool Generation::OpenChannel() {
  absl::StatusOr<std::vector<std::uint32_t>> blocks = ranks_.LeastKvBlocks();
  if (!blocks.ok()) {
    AddCause({.kind = CauseKind::kProtocol, .rank = {}, .status = blocks.status(), .is_final = true});
    return false;
  }
  is_up_ = true;
  LogInfo("worker group is up", {{"ranks", ranks_.size()}, {"generation", number_}});
  context_.channel.Open({.generation = number_, .num_kv_blocks = *std::move(blocks)}, ranks_.Streams());
  return true;
}

bool Generation::Await(const std::function<bool()>& condition) {
  while (!condition()) {
    if (context_.mailbox.order() != Order::kRun) return false;
    Turn();
    if (first_cause_.Get(MonotonicNow())) return false;
  }
  return true;
}

void Generation::Turn() {
  const absl::Time wake = std::min(MonotonicNow() + kTick, first_cause_.decided_at());
  std::vector<RankEvent> events = context_.mailbox.Wait(ranks_.PidfdsOfRunning(), wake);
  ForgiveIfHeldUp();
  for (RankEvent& event : events) Handle(std::move(event));
  LookForDeaths();
  CheckDeadlines();
  Publish();
}

void Generation::ForgiveIfHeldUp() {
  const absl::Time now = MonotonicNow();
  if (now - last_turn_ > kHeldUp) watch_->Forgive(now - last_turn_);
  last_turn_ = now;
}

void Generation::Handle(RankEvent event) {
  if (event.peer.generation != number_) return;
  const int rank = event.peer.rank;
  if (auto* hello = std::get_if<HelloEvent>(&event.what)) OnHello(rank, std::move(*hello));
  if (const auto* message = std::get_if<MessageEvent>(&event.what)) OnMessage(rank, message->message);
  if (std::holds_alternative<StreamEndEvent>(event.what) && !is_draining_) {
    AddCause({.kind = CauseKind::kStreamEnded,
              .rank = rank,
              .status = absl::UnavailableError(absl::StrCat(ranks_.NameOf(rank), " ended its control stream"))});
  }
  if (const auto* broken = std::get_if<BrokenEvent>(&event.what)) {
    AddCause({.kind = CauseKind::kProtocol,
              .rank = rank,
              .status = absl::UnavailableError(absl::StrCat(ranks_.NameOf(rank), " ", broken->why))});
  }
}

void Generation::OnHello(int rank, HelloEvent event) {
  if (event.hello.build_id() != BuildId()) {
    AddCause({.kind = CauseKind::kProtocol,
              .rank = rank,
              .status = absl::FailedPreconditionError(
                  absl::StrCat(ranks_.NameOf(rank), " is of build ", event.hello.build_id(),
                               ", the server is of build ", std::string(BuildId()), ": install both from one build")),
              .is_final = true});
  }
  ranks_.OnHello(rank, std::move(event));
  watch_->OnHello(rank);
}

void Generation::OnMessage(int rank, const v1::ConnectRequest& message) {
  switch (message.kind_case()) {
    case v1::ConnectRequest::kHeartbeat:
      return OnHeartbeat(rank, message.heartbeat());
    case v1::ConnectRequest::kReady:
      return OnReady(rank, message.ready());
    case v1::ConnectRequest::kFailure:
      return OnFailure(rank, message.failure());
    case v1::ConnectRequest::kHello:
    case v1::ConnectRequest::kStepResult:  // of another rank than 0
    case v1::ConnectRequest::KIND_NOT_SET:
      AddCause({.kind = CauseKind::kProtocol,
                .rank = rank,
                .status = absl::InternalError(absl::StrCat(ranks_.NameOf(rank), " sent a message of kind ",
                                                           message.kind_case(), " out of turn"))});
  }
}

void Generation::OnHeartbeat(int rank, const v1::Heartbeat& heartbeat) {
  const RankProgress progress = {.loaded_bytes = heartbeat.loaded_bytes(),
                                 .total_bytes = heartbeat.total_bytes(),
                                 .last_step_begun = heartbeat.last_step_begun(),
                                 .last_step_finished = heartbeat.last_step_finished()};
  watch_->OnHeartbeat(rank, progress, MonotonicNow());
  ranks_.OnHeartbeat(rank, progress, TimesFrom(heartbeat.step_times()));
}

void Generation::OnReady(int rank, const v1::Ready& ready) {
  ranks_.OnReady(rank, ready);
  watch_->OnReady(rank, MonotonicNow());
}

void Generation::OnFailure(int rank, const v1::Failure& failure) {
  const absl::StatusCode code = CodeOf(failure);
  const std::string step = failure.step() == 0 ? "" : absl::StrCat(" in step ", failure.step());
  AddCause({.kind = code == absl::StatusCode::kAborted ? CauseKind::kPeerAborted : CauseKind::kFailed,
            .rank = rank,
            .status = {code, absl::StrCat(ranks_.NameOf(rank), " failed", step, ": ", failure.message())},
            .is_final = !is_up_ && IsBeyondRestarts(code)});
}

void Generation::LookForDeaths() {
  for (const auto& [rank, end] : ranks_.TakeEnded(is_draining_)) {
    if (is_draining_ && end.is_success()) continue;  // as it should
    AddCause({.kind = end.was_killed ? CauseKind::kKilled : CauseKind::kExited,
              .rank = rank,
              .status = absl::UnavailableError(absl::StrCat(ranks_.NameOf(rank), " ", end.Describe()))});
  }
}

void Generation::CheckDeadlines() {
  if (is_draining_) return;  // the drain has one of its own
  const absl::Time now = MonotonicNow();
  if (is_up_) watch_->OnStepSent(context_.channel.last_sent(), now);
  if (const std::optional<LateRank> late = watch_->Check(now)) {
    AddCause({.kind = CauseKind::kTimedOut, .rank = late->rank, .status = absl::DeadlineExceededError(late->what)});
  }
}

absl::Status Generation::Drain(absl::Time deadline) {
  if (!is_up_) {  // there is nothing to finish
    End(absl::ZeroDuration());
    return absl::OkStatus();
  }
  is_draining_ = true;
  context_.channel.CloseSending();
  v1::ConnectResponse message;
  message.mutable_drain();
  for (int rank = 0; rank < ranks_.size(); ++rank) Send(rank, message);
  while (!ranks_.Running().empty() && !first_cause_.Get(MonotonicNow()) && context_.mailbox.order() != Order::kStop) {
    if (MonotonicNow() >= deadline) {
      const int rank = ranks_.Running().front();
      AddCause({.kind = CauseKind::kTimedOut,
                .rank = rank,
                .status = absl::DeadlineExceededError(
                    absl::StrCat(ranks_.NameOf(rank), " had not finished in time; killed"))});
      break;
    }
    Turn();
  }
  End(absl::ZeroDuration());
  const std::optional<Cause> cause = first_cause_.Get(absl::InfiniteFuture());
  return cause ? cause->status : absl::OkStatus();
}

void Generation::End(absl::Duration grace) {
  is_up_ = false;
  ranks_.End(grace);
  Publish();
}

void Generation::Publish() { context_.publish(ranks_.Statuses(), is_up_); }

void Generation::AddCause(Cause cause) {
  const absl::Time now = MonotonicNow();
  if (!first_cause_.Get(now)) {  // what comes after the cause follows from it
    LogWarning("worker trouble", {{"generation", number_}, {"what", std::string(cause.status.message())}});
  }
  first_cause_.Add(std::move(cause), now);
}

void Generation::Send(int rank, const v1::ConnectResponse& message) {
  if (absl::Status status = ranks_.Send(rank, Serialize(message)); !status.ok()) {
    AddCause({.kind = CauseKind::kProtocol, .rank = rank, .status = std::move(status)});
  }
}

}  // namespace trireme::server
