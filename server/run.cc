#include "server/run.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include <google/protobuf/stubs/logging.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "server/describe_model.h"
#include "server/exposure.h"
#include "server/front_end.h"
#include "server/grpc_log.h"
#include "server/kv_cache_choice.h"
#include "server/stop_requests.h"
#include "sharding/model.h"
#include "sharding/plan/plan_file.h"

namespace trireme::server {
namespace {

constexpr std::uint32_t kKvBlockTokens = 16;
constexpr std::uint32_t kMinLogitRows = 64;  // so that a prompt's log-probabilities come many at a time
constexpr absl::Duration kProgressInterval = absl::Seconds(3);

void SetUpProcess(const ServerOptions& options) {
  SetUpLogging(options.log_format, "server", options.log_level);
  signal(SIGPIPE, SIG_IGN);
  // protobuf prints requests that do not parse; we tell the client instead.
  google::protobuf::SetLogHandler(nullptr);
  TakeOverGrpcLog();
}

// Several lines for people, one for machines.
void ReportFailure(const ServerOptions& options, const absl::Status& status) {
  if (options.log_format == LogFormat::kJson) {
    LogError("cannot serve", {{"error", status.message()}});
  } else {
    std::cerr << "trireme-server: " << status.message() << "\n";
  }
}

absl::StatusOr<std::filesystem::path> WorkerBinary(const ServerOptions& options) {
  std::error_code error;
  std::filesystem::path path = options.worker_binary;
  if (path.empty()) path = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "trireme-worker";
  if (access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(absl::StrCat("no program ", path.string(), ": give --worker-binary"));
}

absl::StatusOr<sharding::Model> OpenAndCheck(const ServerOptions& options, const sharding::Plan& user_plan) {
  ASSIGN_OR_RETURN(sharding::Model model,
                   sharding::OpenModel(options.model, sharding::StrategyRegistry::BuiltIn(), user_plan));
  RETURN_IF_ERROR(sharding::CheckTpDegree(model, static_cast<int>(options.tp_degree)));
  return model;
}

SchedulerLimits LimitsFor(const ServerOptions& options) {
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_logit_rows = std::max(options.max_num_seqs, kMinLogitRows),
          .kv_block_tokens = kKvBlockTokens};
}

// What the options and the model's headers come to.
absl::StatusOr<FrontEndOptions> OptionsFor(const ServerOptions& options) {
  const auto metrics = std::make_shared<RequestMetrics>();
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials,
                   MakePortCredentials(options.security, [metrics] { metrics->OnRefused("unauthenticated"); }));
  sharding::Plan user_plan;
  if (!options.plan.empty()) {
    ASSIGN_OR_RETURN(user_plan, sharding::ReadPlanFile(options.plan));
  }
  ASSIGN_OR_RETURN(const sharding::Model model, OpenAndCheck(options, user_plan));
  const sharding::DType dtype = ChooseDType(options.dtype);
  ASSIGN_OR_RETURN(const KvCacheChoice kv_cache, ChooseKvCache(model, options, dtype, kKvBlockTokens));
  FrontEndOptions plan;
  ASSIGN_OR_RETURN(plan.model, DescribeModel(model, options.model, dtype, kv_cache.max_model_len));
  plan.engine = {.limits = LimitsFor(options),
                 .max_model_len = kv_cache.max_model_len,
                 .max_waiting_sequences = options.max_queued_requests,
                 .max_step_stretch = options.max_step_stretch,
                 .prefix_caching = options.has_prefix_caching};
  plan.group.tp_degree = static_cast<int>(options.tp_degree);
  plan.group.model_path = options.model;
  plan.group.dtype = dtype;
  plan.group.plan_rules = user_plan.rules;
  plan.group.max_model_len = kv_cache.max_model_len;
  plan.group.limits = plan.engine.limits;
  plan.group.kv_cache_bytes = kv_cache.bytes_per_rank;
  plan.group.log_format = options.log_format;
  plan.group.log_level = options.log_level;
  plan.group.restarts.max_restarts = static_cast<int>(options.max_group_restarts);
  ASSIGN_OR_RETURN(plan.group.worker_binary, WorkerBinary(options));
  plan.rpc = {.listen = options.listen,
              .max_message_bytes = 0,
              .has_reflection = options.has_reflection && !options.is_hardened,
              .credentials = std::move(credentials),
              .hides_internals = options.is_hardened};
  plan.metrics_listen = options.metrics_listen;
  plan.has_vllm_metrics = options.has_vllm_metrics;
  plan.metrics = metrics;
  return plan;
}

void LogStart(const ServerOptions& options, const FrontEndOptions& plan) {
  LogInfo("starting", {{"build", BuildId()},
                       {"model", plan.model.name},
                       {"tp_degree", options.tp_degree},
                       {"dtype", plan.model.dtype},
                       {"max_model_len", plan.model.max_model_len},
                       {"kv_cache_bytes_per_rank", plan.group.kv_cache_bytes}});
}

// Until the next group is started, what is known of the ranks is of the one that was lost.
bool WasLost(const GroupStatus& group) {
  return std::any_of(group.ranks.begin(), group.ranks.end(), [](const RankStatus& rank) {
    return rank.state == RankState::kLost || rank.state == RankState::kStopped;
  });
}

void LogProgress(const GroupStatus& group) {
  if (group.is_up || group.is_given_up) return;
  if (WasLost(group)) {
    LogInfo("no workers; the group will be started again", {{"restarts", group.num_restarts}});
    return;
  }
  std::uint64_t loaded = 0, total = 0;
  int num_ready = 0;
  for (const RankStatus& rank : group.ranks) {
    loaded += rank.loaded_bytes;
    total += rank.total_bytes;
    num_ready += rank.state == RankState::kReady;
  }
  LogInfo("loading", {{"loaded_bytes", loaded}, {"total_bytes", total}, {"ranks_ready", num_ready}});
}

StopReason WaitForStop(StopRequests& stops, const FrontEnd& front_end) {
  while (true) {
    if (const auto reason = stops.WaitUntil(absl::Now() + kProgressInterval)) return *reason;
    LogProgress(front_end.group_status());
  }
}

// What cut it short before the running requests were done, if something did. Otherwise no worker is left, nor a thread
// that watches them.
std::optional<StopReason> Drain(StopRequests& stops, FrontEnd& front_end, absl::Duration timeout) {
  LogInfo("draining", {{"timeout_ms", absl::ToInt64Milliseconds(timeout)}});
  const absl::Time deadline = absl::Now() + timeout;
  front_end.BeginDrain();
  while (absl::Now() < deadline) {
    if (front_end.WaitUntilIdle(std::min(deadline, absl::Now() + absl::Milliseconds(50)))) break;
    if (const auto reason = stops.WaitUntil(absl::InfinitePast())) return reason;
  }
  front_end.FinishDrain();
  return std::nullopt;
}

absl::Status Serve(const ServerOptions& options) {
  StopRequests stops;
  ASSIGN_OR_RETURN(FrontEndOptions plan, OptionsFor(options));
  LogStart(options, plan);
  if (const auto warning = ExposureWarning(options)) LogWarning(*warning, {{"listen", options.listen}});
  absl::Status given_up;  // written on the group's thread, before the reason is posted and the thread ends
  plan.group.on_given_up = [&](const absl::Status& cause) {
    given_up = cause;
    stops.Post(StopReason::kGroupGivenUp);
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<FrontEnd> front_end, FrontEnd::Start(std::move(plan)));
  if (WaitForStop(stops, *front_end) == StopReason::kGroupGivenUp) return given_up;
  const std::optional<StopReason> cut_short = Drain(stops, *front_end, options.drain_timeout);
  if (cut_short == StopReason::kSignal) {
    return absl::CancelledError("a second signal ended the requests that were still running");
  }
  RETURN_IF_ERROR(given_up);
  LogInfo("stopped");
  return absl::OkStatus();
}

}  // namespace

int Run(const ServerOptions& options) {
  SetUpProcess(options);
  const absl::Status status = Serve(options);
  if (status.ok()) return 0;
  ReportFailure(options, status);
  return 1;
}

}  // namespace trireme::server
