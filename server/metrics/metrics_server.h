// Serves metrics over HTTP, at /metrics.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include "absl/status/statusor.h"

namespace trireme::server {

class MetricsServer {
 public:
  // `address` is HOST:PORT; port 0 takes a free one. FailedPrecondition names the address if it cannot be listened to.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> collectables);

  // Closes the port, at once where loopback reaches it, else within two seconds.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_; }

 private:
  MetricsServer(std::vector<std::shared_ptr<prometheus::Collectable>> collectables,
                std::unique_ptr<prometheus::Exposer> exposer);

  const std::vector<std::shared_ptr<prometheus::Collectable>> collectables_;  // the exposer holds weak ones
  std::unique_ptr<prometheus::Exposer> exposer_;
  const int port_;
};

}  // namespace trireme::server
