// Serves WorkerControlService on a Unix socket that only this user can reach.
#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/control_stream.h"
#include "server/coordinator/private_directory.h"

namespace trireme::server {

class ControlHost {
 public:
  // `events` outlives the host. Removes the sockets of servers that were killed.
  static absl::StatusOr<std::unique_ptr<ControlHost>> Start(ControlEvents* events);

  // Ends every stream; none of `events` is called after it.
  ~ControlHost();
  ControlHost(const ControlHost&) = delete;
  ControlHost& operator=(const ControlHost&) = delete;

  // What workers dial: "unix:/run/user/0/trireme-control-x1y2z3/control".
  const std::string& address() const { return address_; }

 private:
  class Service;

  ControlHost(PrivateDirectory directory, ControlEvents* events);
  absl::Status Listen();

  PrivateDirectory directory_;
  std::string address_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace trireme::server
