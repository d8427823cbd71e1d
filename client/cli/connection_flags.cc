#include "client/cli/connection_flags.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/credential_files.h"
#include "base/status_macros.h"

namespace trireme::client {
namespace {

absl::StatusOr<TlsOptions> ReadTls(const ConnectionFlags& flags) {
  TlsOptions tls;
  tls.server_name = flags.server_name;
  if (!flags.ca_file.empty()) {
    ASSIGN_OR_RETURN(tls.root_certificates, ReadCertificates(flags.ca_file));
  }
  if (flags.certificate_file.empty() != flags.key_file.empty()) {
    return absl::InvalidArgumentError("a client certificate needs both --tls-cert and --tls-key");
  }
  if (!flags.certificate_file.empty()) {
    ASSIGN_OR_RETURN(Identity identity, ReadIdentity(flags.certificate_file, flags.key_file));
    tls.certificate_chain = std::move(identity.certificate_chain);
    tls.private_key = std::move(identity.private_key);
  }
  return tls;
}

absl::StatusOr<std::string> ReadToken(const std::string& file) {
  ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ReadTokens(file));
  if (tokens.size() == 1) return tokens.front();
  return absl::InvalidArgumentError(absl::StrCat(file, " holds ", tokens.size(), " tokens, expected one"));
}

}  // namespace

void ConnectionFlags::Declare(FlagParser& flags) {
  flags.BeginGroup("Security");
  flags.AddSwitch("tls", "encrypt, and trust the authorities that this system trusts", &is_tls);
  flags.Add("tls-ca", "FILE", "encrypt, and trust these authorities instead (PEM)", &ca_file);
  flags.Add("tls-cert", "FILE", "client certificate, for servers that ask for one (PEM)", &certificate_file);
  flags.Add("tls-key", "FILE", "its private key (PEM, not encrypted)", &key_file);
  flags.Add("tls-server-name", "NAME", "name that the server's certificate bears; default: the target's host",
            &server_name);
  flags.Add("auth-token-file", "FILE", "bearer token to send with each call; in the clear without TLS", &token_file);
}

absl::Status ConnectionFlags::Fill(ClientOptions& options) const {
  if (is_tls || !ca_file.empty() || !certificate_file.empty() || !key_file.empty() || !server_name.empty()) {
    ASSIGN_OR_RETURN(options.tls, ReadTls(*this));
  }
  if (!token_file.empty()) {
    ASSIGN_OR_RETURN(options.auth_token, ReadToken(token_file));
  }
  return absl::OkStatus();
}

}  // namespace trireme::client
