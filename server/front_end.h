// The front end: everything of trireme-server that lives from the first open port to the last closed one.
//
//   clients ─▶ RpcServer ─▶ InferenceService ─▶ Engine ─▶ WorkerGroup ─▶ trireme-worker × tp_degree
//                     └─▶ HealthService ◀── state of the group ──┘
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/coordinator/worker_group.h"
#include "server/engine/engine.h"
#include "server/metrics/metrics_server.h"
#include "server/metrics/request_metrics.h"
#include "server/metrics/statistics_fan_out.h"
#include "server/metrics/vllm_metrics.h"
#include "server/service/health_service.h"
#include "server/service/inference_service.h"
#include "server/service/rpc_server.h"
#include "server/service/served_model.h"

namespace trireme::server {

struct FrontEndOptions {
  ServedModel model;
  EngineOptions engine;
  WorkerGroupOptions group;
  RpcServerOptions rpc;           // but max_message_bytes
  std::string metrics_listen;     // empty: no metrics
  bool has_vllm_metrics = false;  // vLLM's names beside our own
  std::shared_ptr<RequestMetrics> metrics = std::make_shared<RequestMetrics>();
};

// Thread-safe but for construction and destruction.
class FrontEnd {
 public:
  // Opens the ports and begins to start the workers. Returns before they are loaded: health says NOT_SERVING until
  // then. FailedPrecondition names an address that cannot be listened to.
  static absl::StatusOr<std::unique_ptr<FrontEnd>> Start(FrontEndOptions options);

  // Ends at once what was not drained.
  ~FrontEnd();
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;

  // From now on health says NOT_SERVING and new calls are UNAVAILABLE; running ones go on.
  void BeginDrain();

  // Whether no request is running any more, waited for until `deadline`.
  bool WaitUntilIdle(absl::Time deadline) const { return engine_.WaitUntilIdle(deadline); }

  // Ends the requests that are left (UNAVAILABLE or ABORTED), lets the workers leave, closes the ports. After
  // BeginDrain.
  void FinishDrain();

  GroupStatus group_status() const;

 private:
  class GroupEvents;

  explicit FrontEnd(FrontEndOptions options);
  std::shared_ptr<VllmMetrics> MakeVllmMetrics() const;
  std::vector<EngineStatistics*> KeepersOfMetrics() const;
  std::vector<std::shared_ptr<prometheus::Collectable>> Collectables() const;
  absl::Status OpenPorts();

  const FrontEndOptions options_;
  const std::shared_ptr<VllmMetrics> vllm_metrics_;  // null unless asked for
  StatisticsFanOut statistics_;
  HealthService health_;
  Engine engine_;
  WorkerGroup group_;
  std::unique_ptr<GroupEvents> group_events_;
  std::atomic<bool> is_group_started_ = false;  // the ports are open before
  InferenceService service_;
  std::unique_ptr<RpcServer> rpc_server_;
  std::unique_ptr<MetricsServer> metrics_server_;
};

}  // namespace trireme::server
