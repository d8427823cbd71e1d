// A gRPC server with Trireme's settings: the one place that knows them. Clients may ping to keep a connection alive,
// also between calls, no more than once a second, and may have kMaxStreamsPerConnection calls open on it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trireme::server {

// More than run and wait by default, so that a single router learns that the queue is full. A gRPC client holds further
// calls back until others have ended.
inline constexpr int kMaxStreamsPerConnection = 4096;

struct RpcServerOptions {
  std::string listen;                   // HOST:PORT; port 0 takes a free one
  std::uint32_t max_message_bytes = 0;  // of a request; > 0
  bool has_reflection = true;
  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr;  // null: not encrypted, and open to everybody
  bool hides_internals = false;                                    // see hardening.h: for the errors of every method
};

class RpcServer {
 public:
  // `services` outlive the server. FailedPrecondition names the address if it cannot be listened to (taken, no such
  // host).
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options,
                                                          const std::vector<grpc::Service*>& services);

  // Shuts down at once.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  int port() const { return port_; }

  // Takes no new calls; calls that are open at `deadline` end with UNAVAILABLE. Returns when none is left. Idempotent.
  void Shutdown(absl::Time deadline);

 private:
  RpcServer(std::shared_ptr<grpc::ServerCredentials> credentials, std::unique_ptr<grpc::Server> server, int port)
      : credentials_(std::move(credentials)), server_(std::move(server)), port_(port) {}

  const std::shared_ptr<grpc::ServerCredentials> credentials_;  // outlive the server
  const std::unique_ptr<grpc::Server> server_;
  const int port_;
};

}  // namespace trireme::server
