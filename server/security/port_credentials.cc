#include "server/security/port_credentials.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/credential_files.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "server/security/reloaded.h"
#include "server/security/token_list.h"

namespace trireme::server {
namespace {

constexpr std::string_view kHealthPrefix = "/grpc.health.v1.Health/";

struct Certificates {
  Identity identity;
  std::string client_ca;  // empty: clients need none
};

// What the files say now. A null member is not asked for.
struct Sources {
  std::unique_ptr<Reloaded<Certificates>> certificates;
  std::unique_ptr<Reloaded<TokenList>> tokens;
  std::function<void()> on_refused;  // of calls without a good token
};

// One port's, owned by gRPC's core, which uses it from any thread until the port is gone.
struct Port {
  std::shared_ptr<const Sources> sources;
  std::shared_ptr<const Certificates> given;  // the last that were handed out; used under the core's lock
};

// Called for each new connection.
grpc_ssl_certificate_config_reload_status FetchCertificates(void* port_pointer,
                                                            grpc_ssl_server_certificate_config** config) {
  Port& port = *static_cast<Port*>(port_pointer);
  std::shared_ptr<const Certificates> now = port.sources->certificates->value();
  if (now == port.given) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair = {now->identity.private_key.c_str(), now->identity.certificate_chain.c_str()};
  // The core insists on authorities for clients, also where it is told to ask no client for a certificate.
  const std::string& authorities = now->client_ca.empty() ? now->identity.certificate_chain : now->client_ca;
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
  port.given = std::move(now);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

std::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

const grpc_metadata* Find(const grpc_metadata* all, std::size_t count, std::string_view key) {
  for (std::size_t i = 0; i < count; ++i) {
    if (View(all[i].key) == key) return &all[i];
  }
  return nullptr;
}

// Called for each new call, before anything knows of it. Takes the token away: no handler sees it.
void CheckToken(void* port_pointer, grpc_auth_context*, const grpc_metadata* metadata, std::size_t count,
                grpc_process_auth_metadata_done_cb done, void* user_data) {
  const Port& port = *static_cast<const Port*>(port_pointer);
  const grpc_metadata* const path = Find(metadata, count, ":path");
  const grpc_metadata* const authorization = Find(metadata, count, "authorization");
  absl::Status status;
  if (path == nullptr || !View(path->value).starts_with(kHealthPrefix)) {
    status = port.sources->tokens->value()->Check(authorization == nullptr ? "" : View(authorization->value));
  }
  if (!status.ok()) port.sources->on_refused();
  done(user_data, authorization, authorization == nullptr ? 0 : 1, nullptr, 0,
       static_cast<grpc_status_code>(status.code()), std::string(status.message()).c_str());
}

class PortCredentials final : public grpc::ServerCredentials {
 public:
  PortCredentials(std::shared_ptr<const Sources> sources, bool wants_client_certificate)
      : sources_(std::move(sources)), wants_client_certificate_(wants_client_certificate) {}

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    CHECK(false) << "these credentials check calls themselves";
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    auto* const port = new Port{.sources = sources_, .given = nullptr};
    grpc_server_credentials* const credentials =
        sources_->certificates == nullptr ? grpc_insecure_server_credentials_create() : MakeTls(port);
    const grpc_auth_metadata_processor processor = {
        .process = sources_->tokens == nullptr ? nullptr : CheckToken,
        .destroy = [](void* pointer) { delete static_cast<Port*>(pointer); },
        .state = port,
    };
    grpc_server_credentials_set_auth_metadata_processor(credentials, processor);
    const int number = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return number;
  }

  grpc_server_credentials* MakeTls(Port* port) const {
    const auto request = wants_client_certificate_ ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, FetchCertificates, port));
  }

  const std::shared_ptr<const Sources> sources_;
  const bool wants_client_certificate_;
};

void WarnOf(const Identity& identity, const std::string& file) {
  const absl::Time now = absl::Now();
  if (identity.not_before <= now && now < identity.not_after) return;
  LogWarning("the TLS certificate is not valid now",
             {{"file", file},
              {"not_before", absl::FormatTime(absl::RFC3339_sec, identity.not_before, absl::UTCTimeZone())},
              {"not_after", absl::FormatTime(absl::RFC3339_sec, identity.not_after, absl::UTCTimeZone())}});
}

void WarnIfReadableByAll(const std::string& file) {
  if (IsReadableByAll(file)) LogWarning("every user of this host may read this secret: chmod 600", {{"file", file}});
}

absl::StatusOr<Certificates> LoadCertificates(const PortSecurity& security) {
  Certificates certificates;
  ASSIGN_OR_RETURN(certificates.identity, ReadIdentity(security.tls_certificate, security.tls_key));
  if (!security.tls_client_ca.empty()) {
    ASSIGN_OR_RETURN(certificates.client_ca, ReadCertificates(security.tls_client_ca));
  }
  WarnOf(certificates.identity, security.tls_certificate);
  WarnIfReadableByAll(security.tls_key);
  return certificates;
}

absl::StatusOr<TokenList> LoadTokens(const std::string& file) {
  ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ReadTokens(file));
  WarnIfReadableByAll(file);
  return TokenList(tokens);
}

absl::Status CheckTogether(const PortSecurity& security) {
  if (security.tls_certificate.empty() != security.tls_key.empty()) {
    return absl::InvalidArgumentError("TLS needs both a certificate and its key: --tls-cert and --tls-key");
  }
  if (security.tls_certificate.empty() && !security.tls_client_ca.empty()) {
    return absl::InvalidArgumentError("--tls-client-ca needs TLS: --tls-cert and --tls-key");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakePortCredentials(const PortSecurity& security,
                                                                             std::function<void()> on_refused) {
  RETURN_IF_ERROR(CheckTogether(security));
  auto sources = std::make_shared<Sources>();
  sources->on_refused = std::move(on_refused);
  if (!security.tls_certificate.empty()) {
    std::vector<std::string> files = {security.tls_certificate, security.tls_key};
    if (!security.tls_client_ca.empty()) files.push_back(security.tls_client_ca);
    ASSIGN_OR_RETURN(sources->certificates, Reloaded<Certificates>::Start({
                                                .name = "TLS certificates",
                                                .files = std::move(files),
                                                .load = [security] { return LoadCertificates(security); },
                                                .interval = security.reload_interval,
                                            }));
  }
  if (!security.auth_tokens.empty()) {
    ASSIGN_OR_RETURN(sources->tokens, Reloaded<TokenList>::Start({
                                          .name = "tokens",
                                          .files = {security.auth_tokens},
                                          .load = [file = security.auth_tokens] { return LoadTokens(file); },
                                          .interval = security.reload_interval,
                                      }));
  }
  return std::make_shared<PortCredentials>(std::move(sources), !security.tls_client_ca.empty());
}

}  // namespace trireme::server
