// Tells an operator that the server is more open than it may seem.
#pragma once
#include <optional>
#include <string_view>

#include "server/server_options.h"

namespace trireme::server {

// What other hosts could do or see on the gRPC port, as a line for the log; nothing if it is only on loopback, or asks
// for what it should.
std::optional<std::string_view> ExposureWarning(const ServerOptions& options);

}  // namespace trireme::server
