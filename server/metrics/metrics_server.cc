#include "server/metrics/metrics_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace trireme::server {
namespace {

// A connection holds a thread until it has sent its request, or for so long.
constexpr char kNumThreads[] = "16";
constexpr char kRequestTimeoutMs[] = "2000";

// Connects to a port of this host and leaves again.
void Knock(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  close(connection);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> collectables) {
  // The library throws, and does not say which address.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", kNumThreads, "request_timeout_ms", kRequestTimeoutMs});
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

// The library's listener looks whether it shall stop only when someone connects, or after two seconds.
MetricsServer::~MetricsServer() {
  std::atomic<bool> is_closed = false;
  std::thread closer([this, &is_closed] {
    exposer_.reset();
    is_closed = true;
  });
  while (!is_closed) {
    Knock(port_);
    absl::SleepFor(absl::Milliseconds(5));
  }
  closer.join();
}

}  // namespace trireme::server
