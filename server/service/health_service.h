// grpc.health.v1, of our own: gRPC's default service says SERVING from the moment the port is open, and its open
// watches hold up the server's shutdown.
#pragma once
#include <set>

#include <grpcpp/grpcpp.h>

#include "base/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace trireme::server {

// One status for "" (the server) and "trireme.v1.InferenceService": the server has no other purpose. NOT_SERVING at
// first. Thread-safe. Destroyed after the gRPC server it is registered with was shut down.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  HealthService();
  ~HealthService() override;

  // Every open watch is told of a change.
  void SetServing(bool is_serving);

  // Says NOT_SERVING and ends all watches; later ones are told once and end. SetServing does nothing from now on. Call
  // before the server's Shutdown, which waits for the watches.
  void Shutdown();

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context, const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class WatchCall;

  void Publish(bool is_serving) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Guards the watches' own state too: a handful of calls, a few events an hour.
  Mutex mutex_;
  bool is_serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<WatchCall*> watches_ ABSL_GUARDED_BY(mutex_);  // each deletes itself when gRPC is done with it
};

}  // namespace trireme::server
