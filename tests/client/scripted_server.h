// A gRPC server in this process that says what a test tells it to.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::client {

using Writer = grpc::ServerWriter<v1::GenerateResponse>;

// Thread-safe. Set the script before the first call.
class ScriptedServer final : public v1::InferenceService::Service, public grpc::health::v1::Health::Service {
 public:
  using Script = std::function<grpc::Status(int call, grpc::ServerContext* context, Writer* writer)>;

  // Listens on a free port of loopback.
  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(128 << 20);
    builder.RegisterService(static_cast<v1::InferenceService::Service*>(this));
    builder.RegisterService(static_cast<grpc::health::v1::Health::Service*>(this));
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
  }
  ~ScriptedServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

  // Of Generate, in order.
  std::vector<v1::GenerateRequest> requests() {
    MutexLock lock(mutex_);
    return requests_;
  }

  void set_health(std::vector<grpc::health::v1::HealthCheckResponse::ServingStatus> changes) {
    MutexLock lock(mutex_);
    health_ = std::move(changes);
  }

 private:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request, Writer* writer) override {
    int call = 0;
    {
      MutexLock lock(mutex_);
      call = static_cast<int>(requests_.size());
      requests_.push_back(*request);
    }
    return script_(call, context, writer);
  }

  grpc::Status Detokenize(grpc::ServerContext*, const v1::DetokenizeRequest* request,
                          v1::DetokenizeResponse* response) override {
    response->set_text(std::to_string(request->token_ids_size()) + " tokens");
    return grpc::Status::OK;
  }

  grpc::Status Abort(grpc::ServerContext*, const v1::AbortRequest*, v1::AbortResponse*) override {
    return {grpc::StatusCode::PERMISSION_DENIED, "not yours"};
  }

  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override {
    MutexLock lock(mutex_);
    if (!request->service().empty()) return {grpc::StatusCode::NOT_FOUND, "no service " + request->service()};
    response->set_status(health_.front());
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest*,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>* writer) override {
    MutexLock lock(mutex_);
    for (const auto status : health_) {
      grpc::health::v1::HealthCheckResponse response;
      response.set_status(status);
      writer->Write(response);
    }
    return grpc::Status::OK;
  }

  const Script script_;
  int port_ = 0;
  Mutex mutex_;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<grpc::health::v1::HealthCheckResponse::ServingStatus> health_ ABSL_GUARDED_BY(mutex_) = {
      grpc::health::v1::HealthCheckResponse::SERVING};
  std::unique_ptr<grpc::Server> server_;
};

inline v1::GenerateResponse ChunkOf(const std::string& text, std::uint32_t token_id) {
  v1::GenerateResponse response;
  response.set_request_id("r1");
  response.mutable_chunk()->set_text(text);
  response.mutable_chunk()->add_token_ids(token_id);
  return response;
}

inline v1::GenerateResponse CompleteOf(const std::string& text, const std::vector<std::uint32_t>& token_ids) {
  v1::GenerateResponse response;
  response.set_request_id("r1");
  v1::Completion& completion = *response.mutable_complete()->add_completions();
  completion.set_text(text);
  completion.mutable_token_ids()->Add(token_ids.begin(), token_ids.end());
  completion.set_finish_reason(v1::FINISH_REASON_LENGTH);
  response.mutable_complete()->set_seed(7);
  return response;
}

// "Hello world" in two chunks.
inline grpc::Status SayHello(int, grpc::ServerContext*, Writer* writer) {
  writer->Write(ChunkOf("Hello", 10));
  writer->Write(ChunkOf(" world", 11));
  writer->Write(CompleteOf("Hello world", {10, 11}));
  return grpc::Status::OK;
}

// Sends a chunk, then nothing until the client has gone.
inline grpc::Status SayHelloAndHang(int, grpc::ServerContext* context, Writer* writer) {
  writer->Write(ChunkOf("Hello", 10));
  while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  return grpc::Status::CANCELLED;
}

}  // namespace trireme::client
