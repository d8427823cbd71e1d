// What a port of gRPC asks of its clients: encryption, a certificate, a token.
//
// Goals: no call of any service reaches its handler before the token was checked, whatever is registered later; files
// change under a running server. Hence gRPC's own authentication filter, in front of all services, and its fetcher of
// certificates, both by the C interface: in C++ the filter needs TLS, and FileWatcherCertificateProvider would
// take a key that does not fit its certificate. Interceptors cannot refuse a call before its handler runs.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include <grpcpp/security/server_credentials.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trireme::server {

// Names of files; empty ones are not asked for.
struct PortSecurity {
  std::string tls_certificate = {};  // PEM: the server's certificate and those between it and its authority
  std::string tls_key = {};          // PEM; with tls_certificate or not at all
  std::string tls_client_ca = {};    // PEM: clients must show a certificate of these authorities. Needs tls_certificate
  std::string auth_tokens = {};      // see ReadTokens: clients must send one of these. Health checks go without
  absl::Duration reload_interval = absl::Seconds(1);
};

// For ports that are opened with grpc::ServerBuilder; lives as long as they do. Changed files hold for connections
// (certificates) and calls (tokens) that begin later. Warns of key and token files that every user may read, and of a
// certificate that is not valid now. `on_refused` is called for each call without a good token, on any thread, before
// the client hears of it; must not block.
//
// InvalidArgument, NotFound or PermissionDenied names the file that is no good and says why.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakePortCredentials(
    const PortSecurity& security, std::function<void()> on_refused = [] {});

}  // namespace trireme::server
