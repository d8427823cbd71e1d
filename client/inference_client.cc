#include "client/inference_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "base/duration_message.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace trireme::client {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// The codes have the same numbers.
absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

void SetDeadline(const CallOptions& call, grpc::ClientContext& context) {
  if (call.deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(call.deadline));
}

HealthCheckRequest HealthRequest(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

std::optional<absl::Duration> ServersRetryDelay(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::RetryInfo retry;
    if (!detail.UnpackTo(&retry)) continue;
    return DurationFrom(retry.retry_delay());
  }
  return std::nullopt;
}

}  // namespace

void Cancellation::Cancel() {
  MutexLock lock(mutex_);
  is_cancelled_ = true;
  for (grpc::ClientContext* const context : contexts_) context->TryCancel();
  changed_.SignalAll();
}

bool Cancellation::is_cancelled() {
  MutexLock lock(mutex_);
  return is_cancelled_;
}

bool Cancellation::SleepUntil(absl::Time time) {
  MutexLock lock(mutex_);
  while (!is_cancelled_ && changed_.WaitUntil(mutex_, time)) {
  }
  return is_cancelled_;
}

Cancellation::Registration::Registration(Cancellation* cancellation, grpc::ClientContext* context)
    : cancellation_(cancellation), context_(context) {
  if (cancellation_ == nullptr) return;
  MutexLock lock(cancellation_->mutex_);
  cancellation_->contexts_.insert(context_);
  if (cancellation_->is_cancelled_) context_->TryCancel();
}

Cancellation::Registration::~Registration() {
  if (cancellation_ == nullptr) return;
  MutexLock lock(cancellation_->mutex_);
  cancellation_->contexts_.erase(context_);
}

InferenceClient::InferenceClient(const ClientOptions& options) : options_(options) {
  const std::shared_ptr<grpc::Channel> channel = MakeChannel(options_);
  stub_ = v1::InferenceService::NewStub(channel);
  health_ = grpc::health::v1::Health::NewStub(channel);
}

absl::Status InferenceClient::CallWithRetries(const CallOptions& call, const Attempt& attempt) const {
  Cancellation never;
  Cancellation* const cancellation = call.cancellation != nullptr ? call.cancellation : &never;
  absl::Duration delay = options_.retry_delay;
  for (std::uint32_t attempts = 1;; ++attempts) {
    grpc::ClientContext context;
    SetDeadline(call, context);
    const Cancellation::Registration registration(cancellation, &context);
    bool anything_came = false;
    const grpc::Status status = attempt(&context, &anything_came);
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE || anything_came || attempts >= options_.max_attempts) {
      return ToAbsl(status);
    }
    const absl::Time next = absl::Now() + ServersRetryDelay(status).value_or(delay);
    if (next >= call.deadline) return ToAbsl(status);
    if (cancellation->SleepUntil(next)) return absl::CancelledError("cancelled while waiting to try again");
    delay *= 2;
  }
}

template <typename Response, typename Method, typename Request>
absl::StatusOr<Response> InferenceClient::CallUnary(Method method, const Request& request,
                                                    const CallOptions& call) const {
  Response response;
  const absl::Status status = CallWithRetries(
      call, [&](grpc::ClientContext* context, bool*) { return ((*stub_).*method)(context, request, &response); });
  if (!status.ok()) return status;
  return response;
}

absl::Status InferenceClient::Generate(const v1::GenerateRequest& request, const CallOptions& call,
                                       const std::function<void(const v1::GenerateResponse&)>& on_response) {
  return CallWithRetries(call, [&](grpc::ClientContext* context, bool* anything_came) {
    const auto reader = stub_->Generate(context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
      *anything_came = true;
      on_response(response);
    }
    return reader->Finish();
  });
}

absl::StatusOr<v1::AbortResponse> InferenceClient::Abort(const v1::AbortRequest& request, const CallOptions& call) {
  return CallUnary<v1::AbortResponse>(&v1::InferenceService::Stub::Abort, request, call);
}

absl::StatusOr<v1::TokenizeResponse> InferenceClient::Tokenize(const v1::TokenizeRequest& request,
                                                               const CallOptions& call) {
  return CallUnary<v1::TokenizeResponse>(&v1::InferenceService::Stub::Tokenize, request, call);
}

absl::StatusOr<v1::DetokenizeResponse> InferenceClient::Detokenize(const v1::DetokenizeRequest& request,
                                                                   const CallOptions& call) {
  return CallUnary<v1::DetokenizeResponse>(&v1::InferenceService::Stub::Detokenize, request, call);
}

absl::StatusOr<v1::GetModelInfoResponse> InferenceClient::GetModelInfo(const CallOptions& call) {
  return CallUnary<v1::GetModelInfoResponse>(&v1::InferenceService::Stub::GetModelInfo, v1::GetModelInfoRequest(),
                                             call);
}

absl::StatusOr<v1::GetServerInfoResponse> InferenceClient::GetServerInfo(const CallOptions& call) {
  return CallUnary<v1::GetServerInfoResponse>(&v1::InferenceService::Stub::GetServerInfo, v1::GetServerInfoRequest(),
                                              call);
}

absl::StatusOr<v1::GetLoadsResponse> InferenceClient::GetLoads(const CallOptions& call) {
  return CallUnary<v1::GetLoadsResponse>(&v1::InferenceService::Stub::GetLoads, v1::GetLoadsRequest(), call);
}

absl::StatusOr<HealthCheckResponse> InferenceClient::CheckHealth(const std::string& service, const CallOptions& call) {
  HealthCheckResponse response;
  grpc::ClientContext context;
  SetDeadline(call, context);
  const Cancellation::Registration registration(call.cancellation, &context);
  const grpc::Status status = health_->Check(&context, HealthRequest(service), &response);
  if (!status.ok()) return ToAbsl(status);
  return response;
}

absl::Status InferenceClient::WatchHealth(const std::string& service, const CallOptions& call,
                                          const std::function<void(const HealthCheckResponse&)>& on_change) {
  grpc::ClientContext context;
  SetDeadline(call, context);
  const Cancellation::Registration registration(call.cancellation, &context);
  const auto reader = health_->Watch(&context, HealthRequest(service));
  HealthCheckResponse response;
  while (reader->Read(&response)) on_change(response);
  return ToAbsl(reader->Finish());
}

}  // namespace trireme::client
