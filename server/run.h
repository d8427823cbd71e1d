// trireme-server from its options to its exit status.
#pragma once
#include "server/server_options.h"

namespace trireme::server {

// Validates the model for the degree (before anything else is started or any weight is read), serves until it is told
// to stop, and drains.
//
// Returns 0 after SIGTERM or SIGINT; 1 if it could not start, if the worker group was lost too often, or if a second
// signal cut requests off. The reason is in the log.
int Run(const ServerOptions& options);

}  // namespace trireme::server
