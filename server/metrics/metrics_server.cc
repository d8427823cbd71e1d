#include "server/metrics/metrics_server.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace trireme::server {

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> collectables) {
  // The library throws, and does not say which address.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address);
    if (exposer->GetListeningPorts().empty()) {
      return absl::FailedPreconditionError(absl::StrCat("metrics: listening on ", address, " opened no port"));
    }
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(collectables), std::move(exposer)));
  } catch (const std::exception& e) {
    return absl::FailedPreconditionError(
        absl::StrCat("metrics: cannot listen on ", address, ": is it taken? (", e.what(), ")"));
  }
}

MetricsServer::MetricsServer(std::vector<std::shared_ptr<prometheus::Collectable>> collectables,
                             std::unique_ptr<prometheus::Exposer> exposer)
    : collectables_(std::move(collectables)),
      exposer_(std::move(exposer)),
      port_(exposer_->GetListeningPorts().front()) {
  for (const auto& collectable : collectables_) exposer_->RegisterCollectable(collectable);
}

}  // namespace trireme::server
