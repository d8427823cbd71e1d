// A unary method as a function from message to message or error, and the bytes around it.
#pragma once
#include <functional>

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "server/engine/request.h"
#include "server/service/limits.h"
#include "server/service/status_details.h"
#include "server/service/wire.h"
#include "server/service/work_queue.h"

namespace trireme::server {

// Fills `response_bytes` with what `answer` says to `request_bytes`, or returns the error.
template <typename Request, typename Response>
absl::Status AnswerBytes(const std::function<absl::StatusOr<Response>(const Request&)>& answer,
                         const grpc::ByteBuffer& request_bytes, grpc::ByteBuffer& response_bytes) {
  Request request;
  RETURN_IF_ERROR(ParseRequest(request_bytes, request));
  ASSIGN_OR_RETURN(const Response response, answer(request));
  ASSIGN_OR_RETURN(response_bytes, SerializeResponse(response));
  return absl::OkStatus();
}

// The bytes of one call and where they go. Valid until the reactor was finished.
struct UnaryBytes {
  grpc::CallbackServerContext* context;
  const grpc::ByteBuffer* request;
  grpc::ByteBuffer* response;
};

// For answers that take microseconds.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerNow(const ServiceLimits& limits, UnaryBytes bytes,
                                    std::function<absl::StatusOr<Response>(const Request&)> answer) {
  grpc::ServerUnaryReactor* reactor = bytes.context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(AnswerBytes(answer, *bytes.request, *bytes.response), limits.retry_delay));
  return reactor;
}

// For answers that take longer: given on `queue`, but to nobody who has gone meanwhile.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerOn(WorkQueue& queue, const ServiceLimits& limits, UnaryBytes bytes,
                                   std::function<absl::StatusOr<Response>(const Request&)> answer) {
  grpc::ServerUnaryReactor* reactor = bytes.context->DefaultReactor();
  const absl::Duration retry_delay = limits.retry_delay;
  const bool posted = queue.TryPost(bytes.request->Length(), [=, answer = std::move(answer)] {
    if (bytes.context->IsCancelled()) return reactor->Finish(grpc::Status::CANCELLED);
    reactor->Finish(ToGrpcStatus(AnswerBytes(answer, *bytes.request, *bytes.response), retry_delay));
  });
  if (!posted) {
    reactor->Finish(ToGrpcStatus(TextQueueFullError(), retry_delay));
  }
  return reactor;
}

}  // namespace trireme::server
