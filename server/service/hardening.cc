#include "server/service/hardening.h"

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/logging.h"
#include "google/rpc/status.pb.h"

namespace trireme::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// What the client is told instead; null for a code whose text is about the client's own request.
const char* TextFor(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::DATA_LOSS:
      return "internal error: the server's log says more";
    case grpc::StatusCode::UNAVAILABLE:
      return "not available now: try again later";
    case grpc::StatusCode::ABORTED:
      return "the server could not finish this call: what came of it may be incomplete";
    default:
      return nullptr;
  }
}

std::string DetailsWithText(const std::string& serialized, const std::string& text) {
  google::rpc::Status details;
  if (serialized.empty() || !details.ParseFromString(serialized)) return "";
  details.set_message(text);
  return details.SerializeAsString();
}

class ErrorGuard final : public Interceptor {
 public:
  explicit ErrorGuard(std::string method) : method_(std::move(method)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (const char* const text = TextFor(status.error_code())) {
        Log(status);
        methods->ModifySendStatus(
            grpc::Status(status.error_code(), text, DetailsWithText(status.error_details(), text)));
      }
    }
    methods->Proceed();
  }

 private:
  void Log(const grpc::Status& status) const {
    LogWarning("an error was kept from the client",
               {{"method", method_},
                {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()))},
                {"error", status.error_message()}});
  }

  const std::string method_;
};

class ErrorGuardFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new ErrorGuard(info->method());  // gRPC's to delete
  }
};

}  // namespace

bool IsServersFault(absl::StatusCode code) { return TextFor(static_cast<grpc::StatusCode>(code)) != nullptr; }

void HideInternalsInErrors(grpc::ServerBuilder& builder) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<ErrorGuardFactory>());
  builder.experimental().SetInterceptorCreators(std::move(factories));
}

void HideInternals(v1::GetServerInfoResponse& info) {
  info.clear_build_id();
  info.clear_last_restart_reason();
  info.clear_last_loss();
  for (v1::RankInfo& rank : *info.mutable_ranks()) {
    rank.clear_host();
    rank.clear_pid();
  }
}

}  // namespace trireme::server
