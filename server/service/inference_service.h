// trireme.v1.InferenceService over gRPC's callback API.
//
// All methods are registered raw (bytes in, bytes out), so that a message that does not parse gets an answer that says
// why; see wire.h.
#pragma once
#include <chrono>
#include <functional>

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/coordinator/group_status.h"
#include "server/engine/engine.h"
#include "server/engine/statistics.h"
#include "server/service/generate_call.h"
#include "server/service/limits.h"
#include "server/service/served_model.h"
#include "server/service/work_queue.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::server {

// What the service stands on. The pointers outlive it.
struct InferenceServiceOptions {
  const ServedModel* model = nullptr;
  Engine* engine = nullptr;
  ServiceStatistics* statistics = nullptr;
  std::function<GroupStatus()> group_status;  // may be called from any thread
  ServiceLimits limits;
  std::uint32_t max_num_seqs = 0;     // for GetLoads
  std::uint32_t kv_block_tokens = 0;  // for GetLoads
  bool hides_internals = false;       // see hardening.h: for GetServerInfo
};

// Every method as bytes, in the order of the proto.
using RawInferenceService = v1::InferenceService::WithRawCallbackMethod_Generate<
    v1::InferenceService::WithRawCallbackMethod_Abort<v1::InferenceService::WithRawCallbackMethod_Tokenize<
        v1::InferenceService::WithRawCallbackMethod_Detokenize<v1::InferenceService::WithRawCallbackMethod_GetModelInfo<
            v1::InferenceService::WithRawCallbackMethod_GetServerInfo<
                v1::InferenceService::WithRawCallbackMethod_GetLoads<v1::InferenceService::Service>>>>>>>;

// Thread-safe. Destroyed after the gRPC server it is registered with was shut down, and after the engine was stopped.
class InferenceService final : public RawInferenceService {
 public:
  explicit InferenceService(InferenceServiceOptions options);

  // Waits until no Generate call is open: all have handed their last message to the network. False if some are at
  // `deadline`.
  bool WaitUntilNoneIsOpen(absl::Time deadline) { return open_calls_.WaitUntilNone(deadline); }

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetLoads(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

 private:
  absl::StatusOr<v1::AbortResponse> AbortRequests(const v1::AbortRequest& request);

  const InferenceServiceOptions options_;
  const std::chrono::steady_clock::time_point start_time_;
  OpenCalls open_calls_;
  const CallEnvironment environment_;
  WorkQueue text_queue_;  // the last: its end runs what waits in it
};

}  // namespace trireme::server
