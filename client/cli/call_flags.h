// Flags that the commands which call a server have in common.
#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/flags.h"
#include "client/cli/connection_flags.h"
#include "client/inference_client.h"

namespace trireme::client {

struct TargetFlags {
  std::string target = ClientOptions().target;
  std::optional<absl::Duration> timeout;
  ConnectionFlags connection;

  // --target and --timeout. DeclareConnection begins a group of its own in the help: call it last.
  void Declare(FlagParser& flags);
  void DeclareTarget(FlagParser& flags);  // without --timeout
  void DeclareConnection(FlagParser& flags) { connection.Declare(flags); }

  // Reads the files that the flags name; the error names flag or file.
  absl::StatusOr<ClientOptions> ReadClientOptions() const;
  CallOptions call_options() const;  // the time runs from now
};

}  // namespace trireme::client
