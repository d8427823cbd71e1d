#include "server/service/health_service.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::server {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

namespace {

bool IsKnown(const std::string& service) {
  return service.empty() || service == v1::InferenceService::service_full_name();
}

HealthCheckResponse::ServingStatus ToProto(bool is_serving) {
  return is_serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

}  // namespace

// One open watch: sends the latest status, one write at a time. A status that was overtaken while a write was
// outstanding is not sent.
class HealthService::WatchCall final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  WatchCall(HealthService& service, bool is_known) : service_(service), is_known_(is_known) {}

  // REQUIRES, here and of End: service_.mutex_ is held. (Clang's analysis does not see that the caller's is the same.)
  void Tell(bool is_serving) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    status_ = is_known_ ? ToProto(is_serving) : HealthCheckResponse::SERVICE_UNKNOWN;
    Advance();
  }

  // Ends the call after what is to be told.
  void End() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    is_ending_ = true;
    Advance();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(service_.mutex_);
    is_writing_ = false;
    is_ending_ |= !ok;
    Advance();
  }

  void OnCancel() override {
    MutexLock lock(service_.mutex_);
    FinishOnce(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    {
      MutexLock lock(service_.mutex_);
      service_.watches_.erase(this);
    }
    delete this;
  }

 private:
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_.mutex_) {
    if (is_writing_ || is_finished_) return;
    if (status_ != sent_) {
      sent_ = status_;
      message_.set_status(status_);
      is_writing_ = true;
      StartWrite(&message_);
    } else if (is_ending_) {
      FinishOnce(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is ending"));
    }
  }

  void FinishOnce(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_.mutex_) {
    if (is_finished_) return;
    is_finished_ = true;
    Finish(status);
  }

  HealthService& service_;
  const bool is_known_;
  HealthCheckResponse::ServingStatus status_ = HealthCheckResponse::UNKNOWN;
  HealthCheckResponse::ServingStatus sent_ = HealthCheckResponse::UNKNOWN;
  HealthCheckResponse message_;  // unchanged while it is written
  bool is_writing_ = false;
  bool is_ending_ = false;
  bool is_finished_ = false;
};

HealthService::HealthService() = default;

HealthService::~HealthService() {
  MutexLock lock(mutex_);
  CHECK(watches_.empty()) << " the gRPC server still runs";
}

void HealthService::SetServing(bool is_serving) {
  MutexLock lock(mutex_);
  if (!is_shut_down_) Publish(is_serving);
}

void HealthService::Shutdown() {
  MutexLock lock(mutex_);
  is_shut_down_ = true;
  Publish(false);
  for (WatchCall* watch : watches_) watch->End();
}

void HealthService::Publish(bool is_serving) {
  is_serving_ = is_serving;
  for (WatchCall* watch : watches_) watch->Tell(is_serving);
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context, const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!IsKnown(request->service())) {
    reactor->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND,
                                 absl::StrCat("no service \"", request->service().substr(0, 200), "\" here")));
    return reactor;
  }
  MutexLock lock(mutex_);
  response->set_status(ToProto(is_serving_));
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(grpc::CallbackServerContext*,
                                                                    const HealthCheckRequest* request) {
  auto* watch = new WatchCall(*this, IsKnown(request->service()));
  MutexLock lock(mutex_);
  watches_.insert(watch);
  watch->Tell(is_serving_);
  if (is_shut_down_) watch->End();
  return watch;
}

}  // namespace trireme::server
