#include "server/metrics/state_metrics.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/version.h"
#include "server/coordinator/monotonic_clock.h"

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

// One series a rank, of those for which `value` has one.
MetricFamily OfRanks(const GroupStatus& group, MetricType type, const char* name, const char* help,
                     const std::function<std::optional<double>(const RankStatus&)>& value) {
  MetricFamily family{name, help, type, {}};
  for (const RankStatus& rank : group.ranks) {
    const std::optional<double> now = value(rank);
    if (!now) continue;
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"rank", std::to_string(rank.rank)}};
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = *now;
  }
  return family;
}

MetricFamily SecondsOfRanks(const GroupStatus& group, const char* name, const char* help,
                            absl::Duration RankTimes::*sum) {
  return OfRanks(group, MetricType::Counter, name, help,
                 [sum](const RankStatus& rank) { return absl::ToDoubleSeconds(rank.times.*sum); });
}

// Only of ranks that live: the others are silent for ever.
std::optional<double> HeartbeatAge(const RankStatus& rank) {
  const bool is_alive = rank.state == RankState::kLoading || rank.state == RankState::kReady;
  if (!is_alive || !rank.last_heartbeat) return std::nullopt;
  return absl::ToDoubleSeconds(MonotonicNow() - *rank.last_heartbeat);
}

void AddRanks(const GroupStatus& group, std::vector<MetricFamily>& families) {
  families.push_back(OfRanks(group, MetricType::Gauge, "trireme_rank_up", "1 if the rank runs steps, else 0.",
                             [](const RankStatus& rank) { return rank.state == RankState::kReady ? 1 : 0; }));
  families.push_back(OfRanks(group, MetricType::Gauge, "trireme_rank_heartbeat_age_seconds",
                             "Since the rank's last heartbeat; due ten times a second.", HeartbeatAge));
  families.push_back(OfRanks(group, MetricType::Counter, "trireme_rank_steps_total",
                             "Steps that the rank has finished, in this generation of the group, as all that follow.",
                             [](const RankStatus& rank) { return static_cast<double>(rank.last_step_finished); }));
  families.push_back(SecondsOfRanks(group, "trireme_rank_step_seconds_total",
                                    "In these: forward passes and sampling, collectives included.", &RankTimes::steps));
  families.push_back(OfRanks(group, MetricType::Counter, "trireme_rank_collectives_total", "Collectives in them.",
                             [](const RankStatus& rank) { return static_cast<double>(rank.times.num_collectives); }));
  families.push_back(SecondsOfRanks(group, "trireme_rank_collective_seconds_total", "In collectives, waiting included.",
                                    &RankTimes::collectives));
  families.push_back(SecondsOfRanks(group, "trireme_rank_collective_wait_seconds_total",
                                    "Of that, until the last rank had come to them.", &RankTimes::collective_waits));
  families.push_back(SecondsOfRanks(group, "trireme_rank_straggler_seconds_total",
                                    "By which the rank came to collectives later than the first one.",
                                    &RankTimes::lateness));
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
  std::vector<MetricFamily> families = {
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
      BuildInfo(),
  };
  AddRanks(group, families);
  return families;
}

}  // namespace trireme::server
