// One Generate call: between gRPC's reactor, which allows one write at a time, and the engine, which never waits.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include "base/mutex.h"
#include "server/engine/engine.h"
#include "server/engine/statistics.h"
#include "server/service/call_record.h"
#include "server/service/generation_output.h"
#include "server/service/limits.h"
#include "server/service/open_calls.h"
#include "server/service/served_model.h"
#include "server/service/validate_generate.h"
#include "server/service/work_queue.h"

namespace trireme::server {

// What calls work with. All of it outlives them.
struct CallEnvironment {
  const ServedModel* model = nullptr;
  ServiceLimits limits;
  Engine* engine = nullptr;
  WorkQueue* text_queue = nullptr;
  ServiceStatistics* statistics = nullptr;
  OpenCalls* open_calls = nullptr;
};

// Tokens that come while a write is outstanding are merged into the next chunk, up to a bound; so neither the engine
// nor other calls ever wait for a slow client.
//
// Threads: gRPC's (reactions), the text queue's (Begin), the engine's (RequestObserver). Who ends the call is decided
// under the mutex: exactly one of them calls gRPC's Finish, also after a cancel. The object lives until gRPC's OnDone
// and until the engine has let go of it, whichever is later.
class GenerateCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                           public RequestObserver,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  // Begins a call, which owns itself. `environment` outlives it.
  static GenerateCall* Start(const CallEnvironment& environment, grpc::CallbackServerContext* context,
                             const grpc::ByteBuffer& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void OnPromptLogprobs(std::span<const GeneratedToken> tokens) override;
  AfterTokens OnTokens(std::uint32_t index, std::span<const GeneratedToken> tokens) override;
  void OnFinish(std::uint32_t index, const trireme::server::Finish& finish) override;
  void OnError(const absl::Status& status) override;

 private:
  GenerateCall(const CallEnvironment& environment, grpc::CallbackServerContext* context,
               const grpc::ByteBuffer& request);

  // Parses, validates, tokenizes and hands the request to the engine.
  void Begin();
  absl::StatusOr<ValidatedGenerate> Read();
  void NameCall(v1::GenerateRequest& request);
  void Submit(ValidatedGenerate validated);
  // Whether the call has ended before the engine has taken it; if so, counts it.
  bool CountIfRefused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelIfGivenUp(const std::string& id);

  // Ends the call before the engine has taken it.
  void Refuse(const absl::Status& status);
  // Ends the call and the engine's work for it.
  void GiveUp(const absl::Status& status);

  // Writes what there is to write, if none is under way; ends the call after the last message.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With an error.
  void FinishWith(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelLater() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallEnvironment& environment_;
  const absl::Time deadline_;
  grpc::ByteBuffer request_;            // until Begin
  std::shared_ptr<GenerateCall> self_;  // until OnDone

  Mutex mutex_;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);  // null from OnDone on
  grpc::Alarm farewell_ ABSL_GUARDED_BY(mutex_);
  CallRecord record_ ABSL_GUARDED_BY(mutex_);
  std::optional<GenerationOutput> output_ ABSL_GUARDED_BY(mutex_);  // from the moment the engine may call
  grpc::ByteBuffer message_ ABSL_GUARDED_BY(mutex_);                // unchanged while it is written
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_written_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace trireme::server
