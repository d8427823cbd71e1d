#include "server/exposure.h"

namespace trireme::server {
namespace {

bool IsLoopback(std::string_view listen) {
  const std::string_view host = listen.substr(0, listen.rfind(':'));
  return host.starts_with("127.") || host == "localhost" || host == "[::1]";
}

}  // namespace

std::optional<std::string_view> ExposureWarning(const ServerOptions& options) {
  if (IsLoopback(options.listen)) return std::nullopt;
  const PortSecurity& security = options.security;
  if (security.auth_tokens.empty() && security.tls_client_ca.empty()) {
    return "whoever reaches this address may use the server: see --auth-tokens and --tls-client-ca";
  }
  if (security.tls_certificate.empty()) return "tokens and prompts travel in the clear: see --tls-cert";
  return std::nullopt;
}

}  // namespace trireme::server
