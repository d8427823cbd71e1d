// What --hardened keeps from clients: how the server is built and where it runs.
#pragma once
#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "trireme/v1/info.pb.h"

namespace trireme::server {

// Whether an error of this code is the server's and not of the client's own making: UNKNOWN, INTERNAL, DATA_LOSS,
// UNAVAILABLE, ABORTED.
bool IsServersFault(absl::StatusCode code);

// From now on the server that is built says no more than this of errors that are not the client's, whichever method
// they come from: code, ErrorInfo's reason, RetryInfo, and a text that is the same for every such error. The text that
// was meant goes to the log. Errors of the client's own making keep their text.
void HideInternalsInErrors(grpc::ServerBuilder& builder);

// Takes out hosts, process numbers, the build and the causes of faults.
void HideInternals(v1::GetServerInfoResponse& info);

}  // namespace trireme::server
