#include "server/metrics/state_metrics.h"

#include <string>
#include <utility>

#include "base/version.h"

namespace trireme::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric GaugeOf(double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  return metric;
}

MetricFamily Gauge(const char* name, const char* help, double value) {
  return {name, help, MetricType::Gauge, {GaugeOf(value)}};
}

MetricFamily Counter(const char* name, const char* help, std::uint64_t value) {
  ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  return {name, help, MetricType::Counter, {metric}};
}

MetricFamily RankUp(const GroupStatus& group) {
  MetricFamily family{"trireme_rank_up", "1 if the rank runs steps, else 0.", MetricType::Gauge, {}};
  for (const RankStatus& rank : group.ranks) {
    family.metric.push_back(GaugeOf(rank.state == RankState::kReady ? 1 : 0, {{"rank", std::to_string(rank.rank)}}));
  }
  return family;
}

std::string RankName(const Cause& cause) { return cause.rank ? std::to_string(*cause.rank) : ""; }

MetricFamily LastLoss(const GroupStatus& group) {
  MetricFamily family{"trireme_group_last_loss_info",
                      "1, with rank and kind of the first cause of the worker group's last loss as labels; no series "
                      "if it never was lost.",
                      MetricType::Gauge,
                      {}};
  if (!group.last_loss) return family;
  const Cause& cause = group.last_loss->cause;
  family.metric.push_back(GaugeOf(1, {{"rank", RankName(cause)}, {"kind", std::string(NameOf(cause.kind))}}));
  return family;
}

MetricFamily LastLossTime(const GroupStatus& group) {
  MetricFamily family{"trireme_group_last_loss_timestamp_seconds",
                      "When the worker group was lost last, in Unix time; no series if it never was lost.",
                      MetricType::Gauge,
                      {}};
  if (group.last_loss) {
    family.metric.push_back(GaugeOf(absl::ToDoubleSeconds(group.last_loss->time - absl::UnixEpoch())));
  }
  return family;
}

MetricFamily BuildInfo() {
  return {"trireme_build_info",
          "1, with the version as labels.",
          MetricType::Gauge,
          {GaugeOf(1, {{"version", std::string(Version())}, {"build_id", std::string(BuildId())}})}};
}

}  // namespace

StateMetrics::StateMetrics(std::function<Loads()> loads, std::function<GroupStatus()> group_status)
    : loads_(std::move(loads)), group_status_(std::move(group_status)) {}

std::vector<MetricFamily> StateMetrics::Collect() const {
  const Loads loads = loads_();
  const GroupStatus group = group_status_();
  return {
      Gauge("trireme_requests_running", "Requests of which a sequence takes part in steps.", loads.running_requests),
      Gauge("trireme_requests_waiting", "Requests in the queue.", loads.waiting_requests),
      Gauge("trireme_sequences_running", "Sequences that take part in steps; a request has n.",
            loads.running_sequences),
      Gauge("trireme_sequences_waiting", "Sequences in the queue, whose bound counts them.", loads.waiting_sequences),
      Gauge("trireme_kv_blocks_used", "KV blocks in use, of the fullest KV group.", loads.used_kv_blocks),
      Gauge("trireme_kv_blocks_free", "KV blocks of that group that no sequence holds, cached ones included.",
            loads.total_kv_blocks - loads.used_kv_blocks),
      Gauge("trireme_kv_blocks_capacity", "Used and free ones; 0 while no worker group is up.", loads.total_kv_blocks),
      Counter("trireme_preemptions_total", "Times that a sequence's KV blocks were taken away for others.",
              loads.preemptions),
      Counter("trireme_resumptions_total",
              "Sequences that ran when their worker group was lost, and were computed anew.", loads.resumptions),
      Gauge("trireme_group_up", "1 if the worker group serves, else 0.", group.is_up ? 1 : 0),
      Gauge("trireme_group_generation", "Times the worker group was started, the first time included.",
            static_cast<double>(group.generation)),
      Counter("trireme_group_restarts_total", "Times the worker group was started again after a loss.",
              group.num_restarts),
      LastLoss(group),
      LastLossTime(group),
      RankUp(group),
      BuildInfo(),
  };
}

}  // namespace trireme::server
