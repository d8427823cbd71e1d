// A client of Trireme's public API: blocking calls over one channel, with deadlines, cancellation and safe retries.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/channel.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::client {

// Ends calls from another thread. Thread-safe; outlives the calls it was given to. Once cancelled, it stays so.
class Cancellation {
 public:
  // Calls that use it end with CANCELLED.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_cancelled() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class InferenceClient;

  // Registers a call for as long as it lives.
  class Registration {
   public:
    Registration(Cancellation* cancellation, grpc::ClientContext* context);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    Cancellation* const cancellation_;  // may be null
    grpc::ClientContext* const context_;
  };

  // Returns whether it was cancelled before `time`.
  bool SleepUntil(absl::Time time) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
};

struct CallOptions {
  absl::Time deadline = absl::InfiniteFuture();  // of all attempts together; DEADLINE_EXCEEDED after it
  Cancellation* cancellation = nullptr;
};

// Thread-safe. Errors are the server's status, code by code; its details other than RetryInfo are not kept.
class InferenceClient {
 public:
  // Does not connect yet: the first call does.
  explicit InferenceClient(const ClientOptions& options);

  // Calls `on_response` on this thread with each message of the stream. It may cancel the call by its cancellation.
  absl::Status Generate(const v1::GenerateRequest& request, const CallOptions& call,
                        const std::function<void(const v1::GenerateResponse&)>& on_response);

  absl::StatusOr<v1::AbortResponse> Abort(const v1::AbortRequest& request, const CallOptions& call);
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request, const CallOptions& call);
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request, const CallOptions& call);
  absl::StatusOr<v1::GetModelInfoResponse> GetModelInfo(const CallOptions& call);
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& call);
  absl::StatusOr<v1::GetLoadsResponse> GetLoads(const CallOptions& call);

  // grpc.health.v1, never retried. `service` empty: the server as a whole.
  absl::StatusOr<grpc::health::v1::HealthCheckResponse> CheckHealth(const std::string& service,
                                                                    const CallOptions& call);
  // Calls `on_change` with the status at once, and with each change, until the call ends.
  absl::Status WatchHealth(const std::string& service, const CallOptions& call,
                           const std::function<void(const grpc::health::v1::HealthCheckResponse&)>& on_change);

 private:
  // One attempt at a call. Sets `anything_came` if the server has answered with more than a status.
  using Attempt = std::function<grpc::Status(grpc::ClientContext* context, bool* anything_came)>;

  absl::Status CallWithRetries(const CallOptions& call, const Attempt& attempt) const;
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> CallUnary(Method method, const Request& request, const CallOptions& call) const;

  const ClientOptions options_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

}  // namespace trireme::client
