#include "server/front_end.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "server/metrics/state_metrics.h"

namespace trireme::server {
namespace {

// For the workers to finish their last step, and for clients to be handed their last message.
constexpr absl::Duration kWorkerGrace = absl::Seconds(5);
constexpr absl::Duration kCallGrace = absl::Seconds(2);

// "127.0.0.1:8700" and the port that was really taken.
std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
}

}  // namespace

// Passes the group's events on to the engine, and tells health: SERVING after the engine takes requests, NOT_SERVING
// before it refuses them.
class FrontEnd::GroupEvents final : public StepListener {
 public:
  GroupEvents(const FrontEndOptions& options, Engine& engine, HealthService& health)
      : options_(options), engine_(engine), health_(health) {}

  void OnGroupUp(const GroupCapacity& capacity) override {
    engine_.OnGroupUp(capacity);
    health_.SetServing(true);
    LogInfo("serving",
            {{"model", options_.model.name}, {"generation", capacity.generation}, {"kv_tokens", TokensFor(capacity)}});
  }

  void OnStepResult(StepResult result) override { engine_.OnStepResult(std::move(result)); }

  void OnGroupDown(const absl::Status& cause, bool for_good) override {
    health_.SetServing(false);
    engine_.OnGroupDown(cause, for_good);
  }

 private:
  std::uint64_t TokensFor(const GroupCapacity& capacity) const {
    const auto least = std::min_element(capacity.num_kv_blocks.begin(), capacity.num_kv_blocks.end());
    return std::uint64_t{*least} * options_.engine.limits.kv_block_tokens;
  }

  const FrontEndOptions& options_;
  Engine& engine_;
  HealthService& health_;
};

absl::StatusOr<std::unique_ptr<FrontEnd>> FrontEnd::Start(FrontEndOptions options) {
  RETURN_IF_ERROR(Validate(options.engine));
  std::unique_ptr<FrontEnd> front_end(new FrontEnd(std::move(options)));
  front_end->engine_.Start(&front_end->group_);
  RETURN_IF_ERROR(front_end->OpenPorts());
  RETURN_IF_ERROR(front_end->group_.Start(front_end->group_events_.get()));
  front_end->is_group_started_ = true;
  return front_end;
}

FrontEnd::FrontEnd(FrontEndOptions options)
    : options_(std::move(options)),
      vllm_metrics_(options_.has_vllm_metrics ? MakeVllmMetrics() : nullptr),
      statistics_(KeepersOfMetrics()),
      engine_(options_.engine, &statistics_),
      group_(options_.group),
      group_events_(std::make_unique<GroupEvents>(options_, engine_, health_)),
      service_({.model = &options_.model,
                .engine = &engine_,
                .statistics = options_.metrics.get(),
                .group_status = [this] { return group_status(); },
                .limits = {},
                .max_num_seqs = options_.engine.limits.max_num_seqs,
                .kv_block_tokens = options_.engine.limits.kv_block_tokens,
                .hides_internals = options_.rpc.hides_internals}) {}

std::shared_ptr<VllmMetrics> FrontEnd::MakeVllmMetrics() const {
  return std::make_shared<VllmMetrics>(VllmMetricsOptions{.model_name = options_.model.name,
                                                          .max_model_len = options_.model.max_model_len,
                                                          .kv_block_tokens = options_.engine.limits.kv_block_tokens,
                                                          .has_prefix_caching = options_.engine.prefix_caching,
                                                          .loads = [this] { return engine_.loads(); }});
}

std::vector<EngineStatistics*> FrontEnd::KeepersOfMetrics() const {
  std::vector<EngineStatistics*> keepers = {options_.metrics.get()};
  if (vllm_metrics_ != nullptr) keepers.push_back(vllm_metrics_.get());
  return keepers;
}

std::vector<std::shared_ptr<prometheus::Collectable>> FrontEnd::Collectables() const {
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables = {
      options_.metrics->registry(),
      std::make_shared<StateMetrics>([this] { return engine_.loads(); }, [this] { return group_status(); })};
  if (vllm_metrics_ != nullptr) collectables.push_back(vllm_metrics_);
  return collectables;
}

absl::Status FrontEnd::OpenPorts() {
  RpcServerOptions rpc = options_.rpc;
  rpc.max_message_bytes = ServiceLimits().max_message_bytes;
  ASSIGN_OR_RETURN(rpc_server_, RpcServer::Start(rpc, {&service_, &health_}));
  const std::string address = WithPort(rpc.listen, rpc_server_->port());
  if (options_.metrics_listen.empty()) {
    LogInfo("listening", {{"address", address}});
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(options_.metrics_listen, Collectables()));
  LogInfo("listening",
          {{"address", address}, {"metrics_address", WithPort(options_.metrics_listen, metrics_server_->port())}});
  return absl::OkStatus();
}

GroupStatus FrontEnd::group_status() const {
  if (is_group_started_) return group_.status();
  GroupStatus status;
  status.ranks.resize(static_cast<std::size_t>(options_.group.tp_degree));
  for (int rank = 0; rank < options_.group.tp_degree; ++rank) status.ranks[static_cast<std::size_t>(rank)].rank = rank;
  return status;
}

void FrontEnd::BeginDrain() {
  health_.Shutdown();
  engine_.Drain();
}

void FrontEnd::FinishDrain() {
  engine_.Stop();
  // gRPC's own shutdown would also wait for clients to close their connections, which some do only seconds later.
  service_.WaitUntilNoneIsOpen(absl::Now() + kCallGrace);
  rpc_server_->Shutdown(absl::Now());
  if (const absl::Status drained = group_.Drain(absl::Now() + kWorkerGrace); !drained.ok()) {
    LogWarning("workers did not leave by themselves", {{"cause", drained.message()}});
  }
}

FrontEnd::~FrontEnd() {
  health_.Shutdown();
  engine_.Stop();
  if (rpc_server_ != nullptr) rpc_server_->Shutdown(absl::Now());
  metrics_server_.reset();
  group_.Stop();
}

}  // namespace trireme::server
