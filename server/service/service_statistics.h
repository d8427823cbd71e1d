// What the service reports to whoever keeps metrics.
#pragma once
#include <string_view>

namespace trireme::server {

// Called on any thread; must not block.
class ServiceStatistics {
 public:
  virtual ~ServiceStatistics() = default;

  // The engine took a Generate call; its EngineStatistics will tell the end.
  virtual void OnAccepted() = 0;

  // A Generate call ended before the engine took it. `code` is a status code's name in lower case.
  virtual void OnRefused(std::string_view code) = 0;
};

}  // namespace trireme::server
