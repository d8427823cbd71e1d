// A connection to a server, with all that it takes to be let in.
#pragma once
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace trireme::client {

// Whom to trust, and what to show of oneself. PEM text, not names of files: see base/credential_files.h.
struct TlsOptions {
  std::string root_certificates;  // authorities that the server's certificate may be of; empty: the system's
  std::string certificate_chain;  // for servers that ask for a client certificate; else empty
  std::string private_key;        // of certificate_chain
  std::string server_name;        // that the server's certificate must bear; empty: the target's host
};

struct ClientOptions {
  std::string target = "127.0.0.1:8700";      // host:port, or unix:path
  std::int32_t max_message_bytes = 64 << 20;  // each way
  std::optional<TlsOptions> tls;              // absent: not encrypted
  std::string auth_token;                     // sent with every call; empty: none. In the clear without TLS
  // A call that fails with UNAVAILABLE before anything came is made again, so text is never doubled: up to this many
  // times in all, after the time that the server's RetryInfo names, else after this one, doubled each time.
  std::uint32_t max_attempts = 4;
  absl::Duration retry_delay = absl::Milliseconds(200);
};

// Does not connect yet: the first call does. Every stub on the channel has TLS and token as in `options`; retries are
// not the channel's.
std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options);

}  // namespace trireme::client
