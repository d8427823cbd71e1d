#include "client/cli/call_flags.h"

#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace trireme::client {

void TargetFlags::Declare(FlagParser& flags) {
  DeclareTarget(flags);
  flags.Add("timeout", "TIME", "give up after this much time, such as 30s", &timeout);
}

void TargetFlags::DeclareTarget(FlagParser& flags) {
  flags.Add("target", "ADDR", "the server: host:port, or unix:path", &target);
}

absl::StatusOr<ClientOptions> TargetFlags::ReadClientOptions() const {
  ClientOptions options;
  options.target = target;
  RETURN_IF_ERROR(connection.Fill(options));
  return options;
}

CallOptions TargetFlags::call_options() const {
  CallOptions call;
  if (timeout.has_value()) call.deadline = absl::Now() + *timeout;
  return call;
}

}  // namespace trireme::client
