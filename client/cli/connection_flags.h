// Flags that say how the commands reach a server that does not let everybody in.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "base/flags.h"
#include "client/channel.h"

namespace trireme::client {

struct ConnectionFlags {
  bool is_tls = false;  // any of the other TLS flags asks for it too
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  std::string server_name;
  std::string token_file;

  void Declare(FlagParser& flags);

  // Reads the files. InvalidArgument, NotFound or PermissionDenied names the file or the flag.
  absl::Status Fill(ClientOptions& options) const;
};

}  // namespace trireme::client
