// Gauges of what is the case now: asked for at each scrape, so that they cannot drift from the truth.
#pragma once
#include <functional>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include "server/coordinator/group_status.h"
#include "server/engine/engine.h"

namespace trireme::server {

// Thread-safe if the functions are.
class StateMetrics final : public prometheus::Collectable {
 public:
  StateMetrics(std::function<Loads()> loads, std::function<GroupStatus()> group_status);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::function<Loads()> loads_;
  const std::function<GroupStatus()> group_status_;
};

}  // namespace trireme::server
