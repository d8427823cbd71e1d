#include "server/service/inference_service.h"

#include <set>
#include <string_view>
#include <utility>

#include "base/logging.h"
#include "base/status_macros.h"
#include "server/service/hardening.h"
#include "server/service/info.h"
#include "server/service/prompt.h"
#include "server/service/status_details.h"
#include "server/service/tokenize.h"
#include "server/service/unary_call.h"

namespace trireme::server {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

InferenceService::InferenceService(InferenceServiceOptions options)
    : options_(std::move(options)),
      start_time_(std::chrono::steady_clock::now()),
      environment_{.model = options_.model,
                   .limits = options_.limits,
                   .engine = options_.engine,
                   .text_queue = &text_queue_,
                   .statistics = options_.statistics,
                   .open_calls = &open_calls_},
      text_queue_(options_.limits.num_text_threads, options_.limits.max_waiting_texts,
                  options_.limits.max_waiting_text_bytes) {}

grpc::ServerWriteReactor<ByteBuffer>* InferenceService::Generate(CallbackServerContext* context,
                                                                 const ByteBuffer* request) {
  return GenerateCall::Start(environment_, context, *request);
}

ServerUnaryReactor* InferenceService::Abort(CallbackServerContext* context, const ByteBuffer* request,
                                            ByteBuffer* response) {
  return AnswerNow<v1::AbortRequest, v1::AbortResponse>(
      options_.limits, {context, request, response},
      [this](const v1::AbortRequest& abort_request) { return AbortRequests(abort_request); });
}

absl::StatusOr<v1::AbortResponse> InferenceService::AbortRequests(const v1::AbortRequest& request) {
  Violations violations;
  if (request.request_ids().empty()) violations.Add("request_ids", "is empty");
  CheckCount("request_ids", request.request_ids_size(), options_.limits.max_abort_ids, violations);
  CheckBytes("reason", request.reason(), options_.limits.max_abort_reason_bytes, violations);
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_REQUEST"));
  v1::AbortResponse response;
  std::set<std::string_view> seen;
  for (const std::string& id : request.request_ids()) {
    if (!seen.insert(id).second || !options_.engine->Abort(id)) continue;
    LogInfo("request aborted", {{"request_id", id}, {"reason", request.reason()}});
    response.add_aborted_request_ids(id);
  }
  return response;
}

ServerUnaryReactor* InferenceService::Tokenize(CallbackServerContext* context, const ByteBuffer* request,
                                               ByteBuffer* response) {
  return AnswerOn<v1::TokenizeRequest, v1::TokenizeResponse>(
      text_queue_, options_.limits, {context, request, response},
      [this](const v1::TokenizeRequest& tokenize) { return TokenizeText(*options_.model, options_.limits, tokenize); });
}

ServerUnaryReactor* InferenceService::Detokenize(CallbackServerContext* context, const ByteBuffer* request,
                                                 ByteBuffer* response) {
  return AnswerOn<v1::DetokenizeRequest, v1::DetokenizeResponse>(
      text_queue_, options_.limits, {context, request, response}, [this](const v1::DetokenizeRequest& detokenize) {
        return DetokenizeIds(*options_.model, options_.limits, detokenize);
      });
}

ServerUnaryReactor* InferenceService::GetModelInfo(CallbackServerContext* context, const ByteBuffer* request,
                                                   ByteBuffer* response) {
  return AnswerNow<v1::GetModelInfoRequest, v1::GetModelInfoResponse>(
      options_.limits, {context, request, response},
      [this](const v1::GetModelInfoRequest& get) -> absl::StatusOr<v1::GetModelInfoResponse> {
        RETURN_IF_ERROR(CheckModelName(*options_.model, get.model()));
        return ModelInfo(*options_.model, options_.limits);
      });
}

ServerUnaryReactor* InferenceService::GetServerInfo(CallbackServerContext* context, const ByteBuffer* request,
                                                    ByteBuffer* response) {
  return AnswerNow<v1::GetServerInfoRequest, v1::GetServerInfoResponse>(
      options_.limits, {context, request, response}, [this](const v1::GetServerInfoRequest&) {
        v1::GetServerInfoResponse info =
            ServerInfo(options_.group_status(), options_.engine->loads(), options_.model->dtype,
                       absl::FromChrono(std::chrono::steady_clock::now() - start_time_));
        if (options_.hides_internals) HideInternals(info);
        return info;
      });
}

ServerUnaryReactor* InferenceService::GetLoads(CallbackServerContext* context, const ByteBuffer* request,
                                               ByteBuffer* response) {
  return AnswerNow<v1::GetLoadsRequest, v1::GetLoadsResponse>(
      options_.limits, {context, request, response}, [this](const v1::GetLoadsRequest&) {
        return LoadsInfo(options_.group_status(), options_.engine->loads(), options_.max_num_seqs,
                         options_.kv_block_tokens);
      });
}

}  // namespace trireme::server
