// Flags that the commands which call a server have in common.
#pragma once
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/flags.h"
#include "client/inference_client.h"

namespace trireme::client {

struct TargetFlags {
  std::string target = ClientOptions().target;
  std::optional<absl::Duration> timeout;

  void Declare(FlagParser& flags);
  ClientOptions client_options() const;
  CallOptions call_options() const;  // the time runs from now
};

}  // namespace trireme::client
