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

  // A model of 100 tokens, 0 to 2 of them special, and 512 tokens of context.
  grpc::Status GetModelInfo(grpc::ServerContext*, const v1::GetModelInfoRequest*,
                            v1::GetModelInfoResponse* response) override {
    response->set_model("scripted");
    response->set_model_type("script");
    response->set_vocab_size(100);
    response->set_max_model_len(512);
    response->add_eos_token_ids(2);
    response->set_bos_token_id(1);
    response->set_pad_token_id(0);
    return grpc::Status::OK;
  }

  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    response->set_version("9.9.9");
    response->set_build_id("9.9.9+abc");
    response->set_tp_degree(2);
    response->set_dtype("float32");
    return grpc::Status::OK;
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

// Tokens one by one, `gap` between them, and the last message; ends early if the client has gone.
inline grpc::Status StreamTokens(int num_tokens, absl::Duration gap, grpc::ServerContext* context, Writer* writer,
                                 std::uint32_t cached_tokens = 1) {
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < num_tokens; ++i) {
    if (i > 0) absl::SleepFor(gap);
    ids.push_back(10);
    v1::GenerateResponse chunk = ChunkOf("x", ids.back());
    chunk.mutable_chunk()->mutable_usage()->set_prompt_tokens(3);
    if (context->IsCancelled() || !writer->Write(chunk)) return grpc::Status::CANCELLED;
  }
  v1::GenerateResponse complete = CompleteOf("", ids);
  complete.mutable_complete()->mutable_usage()->set_prompt_tokens(3);
  complete.mutable_complete()->mutable_usage()->set_cached_tokens(cached_tokens);
  complete.mutable_complete()->mutable_usage()->set_completion_tokens(static_cast<std::uint32_t>(num_tokens));
  writer->Write(complete);
  return grpc::Status::OK;
}

// Sends a chunk, then nothing until the client has gone.
inline grpc::Status SayHelloAndHang(int, grpc::ServerContext* context, Writer* writer) {
  writer->Write(ChunkOf("Hello", 10));
  while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  return grpc::Status::CANCELLED;
}

}  // namespace trireme::client
