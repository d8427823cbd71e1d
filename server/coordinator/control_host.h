// Serves WorkerControlService on a Unix socket that only this user can reach.
#pragma once
#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/coordinator/control_stream.h"
#include "server/coordinator/private_directory.h"

namespace trireme::server {

// Only processes of this user reach the socket; these limits keep one that has no business here from standing in the
// workers' way.
struct ControlHostOptions {
  absl::Duration hello_timeout = absl::Seconds(20);  // a stream that has said nothing by then is ended
  std::size_t max_strangers = 16;                    // of more streams that have said nothing, the oldest is ended
};

class ControlHost {
 public:
  // `events` outlives the host. Removes the sockets of servers that were killed.
  static absl::StatusOr<std::unique_ptr<ControlHost>> Start(ControlEvents* events, ControlHostOptions options = {});

  // Ends every stream; none of `events` is called after it.
  ~ControlHost();
  ControlHost(const ControlHost&) = delete;
  ControlHost& operator=(const ControlHost&) = delete;

  // What workers dial: "unix:/run/user/0/trireme-control-x1y2z3/control".
  const std::string& address() const { return address_; }

 private:
  class Service;

  ControlHost(PrivateDirectory directory, ControlEvents* events, const ControlHostOptions& options);
  absl::Status Listen();

  PrivateDirectory directory_;
  std::string address_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace trireme::server
