#include "server/coordinator/generation.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/status_macros.h"
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

// The least over the ranks, for each KV group; an error where they count groups differently.
absl::StatusOr<std::vector<std::uint32_t>> LeastBlocks(const std::vector<const v1::Ready*>& all) {
  std::vector<std::uint32_t> least(all.front()->num_kv_blocks().begin(), all.front()->num_kv_blocks().end());
  for (const v1::Ready* ready : all) {
    if (ready->num_kv_blocks_size() != static_cast<int>(least.size())) {
      return absl::InternalError(absl::StrCat("ranks have ", least.size(), " and ", ready->num_kv_blocks_size(),
                                              " KV groups: their programs differ"));
    }
    for (std::size_t g = 0; g < least.size(); ++g) {
      least[g] = std::min(least[g], ready->num_kv_blocks(static_cast<int>(g)));
    }
  }
  return least;
}

}  // namespace

Generation::Generation(const GenerationContext& context, std::uint64_t number)
    : context_(context),
      number_(number),
      ranks_(context.options.tp_degree),
      first_cause_(kCausePatience),
      last_turn_(MonotonicNow()) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].status.rank = static_cast<int>(r);
}

Generation::~Generation() { End(absl::ZeroDuration()); }

std::optional<Cause> Generation::RunUntilLost() {
  const auto never = [] { return false; };
  if (StartAll() && Await([this] { return AllHaveSaidHello(); })) {
    ConfigureAll();
    if (Await([this] { return AllAreReady(); }) && OpenChannel()) Await(never);
  }
  return first_cause_.Get(MonotonicNow());
}

bool Generation::StartAll() {
  if (absl::Status status = StartProcesses(); !status.ok()) {
    const bool is_final = IsBeyondRestarts(status.code());
    AddCause(CauseKind::kRoot, std::move(status), is_final);
    return false;
  }
  std::vector<std::string> names;
  for (const Rank& rank : ranks_) names.push_back(NameOf(rank.status.rank));
  watch_.emplace(context_.options.timeouts, std::move(names), MonotonicNow());
  Publish();
  return true;
}

absl::Status Generation::StartProcesses() {
  // The ranks' shared memory: handed on as a descriptor, so that it has no name to leave behind. They size it.
  const int memory = memfd_create("trireme-communicator", MFD_CLOEXEC);
  if (memory < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  const auto close_memory = absl::MakeCleanup([memory] { close(memory); });
  std::vector<std::string> tokens(ranks_.size());
  std::generate(tokens.begin(), tokens.end(), MakeSpawnToken);
  context_.roster.Expect(number_, tokens);
  for (Rank& rank : ranks_) {
    const ProcessSpec spec = WorkerSpec(context_.options, context_.control_address, tokens[rank.status.rank], memory);
    ASSIGN_OR_RETURN(WorkerProcess process, WorkerProcess::Spawn(spec));
    rank.process.emplace(std::move(process));
    rank.status.pid = rank.process->pid();
    LogInfo("worker started", {{"rank", rank.status.rank}, {"pid", rank.status.pid}, {"generation", number_}});
  }
  return absl::OkStatus();
}

void Generation::ConfigureAll() {
  for (Rank& rank : ranks_) {
    v1::ConnectResponse message;
    *message.mutable_configure() = ConfigureMessage(context_.options, rank.status.rank, number_);
    Send(rank.status.rank, Serialize(message));
    rank.status.state = RankState::kLoading;
  }
  watch_->OnConfigured(MonotonicNow());
}

bool Generation::OpenChannel() {
  std::vector<const v1::Ready*> all;
  std::vector<std::shared_ptr<ControlStream>> streams;
  for (const Rank& rank : ranks_) {
    all.push_back(&*rank.ready);
    streams.push_back(rank.stream);
  }
  absl::StatusOr<std::vector<std::uint32_t>> blocks = LeastBlocks(all);
  if (!blocks.ok()) {
    AddCause(CauseKind::kRoot, blocks.status(), /*is_final=*/true);
    return false;
  }
  is_up_ = true;
  LogInfo("worker group is up", {{"ranks", ranks_.size()}, {"generation", number_}});
  context_.channel.Open({.generation = number_, .num_kv_blocks = *std::move(blocks)}, std::move(streams));
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
  std::vector<RankEvent> events = context_.mailbox.Wait(PidfdsOfRunning(), wake);
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
    AddCause(CauseKind::kStreamEnded, absl::UnavailableError(absl::StrCat(NameOf(rank), " ended its control stream")));
  }
  if (const auto* broken = std::get_if<BrokenEvent>(&event.what)) {
    AddCause(CauseKind::kRoot, absl::UnavailableError(absl::StrCat(NameOf(rank), " ", broken->why)));
  }
}

void Generation::OnHello(int rank, HelloEvent event) {
  if (event.hello.build_id() != BuildId()) {
    AddCause(CauseKind::kRoot,
             absl::FailedPreconditionError(absl::StrCat(NameOf(rank), " is of build ", event.hello.build_id(),
                                                        ", the server is of build ", std::string(BuildId()),
                                                        ": install both from one build")),
             /*is_final=*/true);
  }
  ranks_[rank].stream = std::move(event.stream);
  ranks_[rank].status.host = event.hello.host();
  ranks_[rank].status.device = event.hello.device();
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
      AddCause(CauseKind::kRoot, absl::InternalError(absl::StrCat(NameOf(rank), " sent a message of kind ",
                                                                  message.kind_case(), " out of turn")));
  }
}

void Generation::OnHeartbeat(int rank, const v1::Heartbeat& heartbeat) {
  const RankProgress progress = {.loaded_bytes = heartbeat.loaded_bytes(),
                                 .total_bytes = heartbeat.total_bytes(),
                                 .last_step_begun = heartbeat.last_step_begun(),
                                 .last_step_finished = heartbeat.last_step_finished()};
  watch_->OnHeartbeat(rank, progress, MonotonicNow());
  RankStatus& status = ranks_[rank].status;
  status.loaded_bytes = progress.loaded_bytes;
  status.total_bytes = progress.total_bytes;
  status.last_step_begun = progress.last_step_begun;
  status.last_step_finished = progress.last_step_finished;
}

void Generation::OnReady(int rank, const v1::Ready& ready) {
  RankStatus& status = ranks_[rank].status;
  ranks_[rank].ready = ready;
  status.state = RankState::kReady;
  status.weight_bytes = ready.weight_bytes();
  status.bytes_read = ready.bytes_read();
  status.kv_cache_bytes = ready.kv_cache_bytes();
  watch_->OnReady(rank, MonotonicNow());
  LogInfo("worker ready", {{"rank", rank},
                           {"pid", status.pid},
                           {"weight_bytes", status.weight_bytes},
                           {"read_bytes", status.bytes_read},
                           {"kv_cache_bytes", status.kv_cache_bytes}});
}

void Generation::OnFailure(int rank, const v1::Failure& failure) {
  const absl::StatusCode code = CodeOf(failure);
  const std::string step = failure.step() == 0 ? "" : absl::StrCat(" in step ", failure.step());
  const absl::Status status(code, absl::StrCat(NameOf(rank), " failed", step, ": ", failure.message()));
  AddCause(code == absl::StatusCode::kAborted ? CauseKind::kPeerAborted : CauseKind::kRoot, status,
           /*is_final=*/!is_up_ && IsBeyondRestarts(code));
}

void Generation::LookForDeaths() {
  for (Rank& rank : ranks_) {
    RankStatus& status = rank.status;
    if (status.state == RankState::kLost || status.state == RankState::kStopped) continue;
    const std::optional<ProcessEnd> end = rank.process->TryReap();
    if (!end) continue;
    const bool is_wanted = is_draining_ && end->is_success();
    status.state = is_wanted ? RankState::kStopped : RankState::kLost;
    if (is_wanted) continue;
    AddCause(end->was_killed ? CauseKind::kRoot : CauseKind::kExited,
             absl::UnavailableError(absl::StrCat(NameOf(status.rank), " ", end->Describe())));
  }
}

void Generation::CheckDeadlines() {
  if (is_draining_) return;  // the drain has one of its own
  const absl::Time now = MonotonicNow();
  if (is_up_) watch_->OnStepSent(context_.channel.last_sent(), now);
  if (absl::Status status = watch_->Check(now); !status.ok()) AddCause(CauseKind::kRoot, std::move(status));
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
  for (const Rank& rank : ranks_) Send(rank.status.rank, Serialize(message));
  while (!AllHaveEnded() && !first_cause_.Get(MonotonicNow()) && context_.mailbox.order() != Order::kStop) {
    if (MonotonicNow() >= deadline) {
      const auto left = std::find_if(ranks_.begin(), ranks_.end(), [](Rank& r) { return !r.process->TryReap(); });
      AddCause(CauseKind::kRoot, absl::DeadlineExceededError(
                                     absl::StrCat(NameOf(left->status.rank), " had not finished in time; killed")));
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
  for (const Rank& rank : ranks_) {
    if (rank.stream != nullptr) rank.stream->Close({grpc::StatusCode::UNAVAILABLE, "the worker group ends"});
  }
  const absl::Time grace_end = MonotonicNow() + grace;
  for (Rank& rank : ranks_) {
    if (rank.process) rank.process->ReapBy(grace_end);
  }
  for (Rank& rank : ranks_) {
    if (rank.process) rank.process->Kill();
  }
  for (Rank& rank : ranks_) {
    rank.process.reset();  // waits for its end
    rank.status.pid = 0;
    if (rank.status.state != RankState::kLost) rank.status.state = RankState::kStopped;
  }
  Publish();
}

void Generation::Publish() {
  std::vector<RankStatus> ranks;
  for (const Rank& rank : ranks_) ranks.push_back(rank.status);
  context_.publish(ranks, is_up_);
}

void Generation::AddCause(CauseKind kind, absl::Status status, bool is_final) {
  const absl::Time now = MonotonicNow();
  if (!first_cause_.Get(now)) {  // what comes after the cause follows from it
    LogWarning("worker trouble", {{"generation", number_}, {"what", std::string(status.message())}});
  }
  first_cause_.Add({.kind = kind, .status = std::move(status), .is_final = is_final}, now);
}

std::string Generation::NameOf(int rank) const {
  return absl::StrCat("rank ", rank, " (pid ", ranks_[rank].status.pid, ")");
}

bool Generation::AllHaveSaidHello() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.stream != nullptr; });
}

bool Generation::AllAreReady() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ready.has_value(); });
}

bool Generation::AllHaveEnded() const { return PidfdsOfRunning().empty(); }

std::vector<int> Generation::PidfdsOfRunning() const {
  std::vector<int> pidfds;
  for (const Rank& rank : ranks_) {
    if (rank.process && rank.process->is_running()) pidfds.push_back(rank.process->pidfd());
  }
  return pidfds;
}

void Generation::Send(int rank, const grpc::ByteBuffer& message) {
  const absl::Status status = ranks_[rank].stream->Send(message);
  if (status.ok()) return;
  AddCause(CauseKind::kRoot, absl::UnavailableError(absl::StrCat(NameOf(rank), " ", std::string(status.message()))));
}

}  // namespace trireme::server
