#include "server/service/generate_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/service/status_details.h"
#include "server/service/traceparent.h"
#include "server/service/wire.h"

namespace trireme::server {
namespace {

// A deadline that was not given is about as far away as the clock goes.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const absl::Time deadline = absl::FromChrono(context.deadline());
  return deadline > absl::Now() + absl::Hours(24 * 365) ? absl::InfiniteFuture() : deadline;
}

// The engine says ABORTED as soon as it has given out a token. Where nothing of it has gone to the client, a retry can
// double nothing.
absl::Status ForClient(const absl::Status& status, bool has_written) {
  if (status.code() != absl::StatusCode::kAborted || has_written) return status;
  return absl::UnavailableError(std::string(status.message()));
}

}  // namespace

GenerateCall* GenerateCall::Start(const CallEnvironment& environment, grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer& request) {
  std::shared_ptr<GenerateCall> call(new GenerateCall(environment, context, request));
  call->self_ = call;
  if (!environment.text_queue->TryPost(request.Length(), [call] { call->Begin(); })) {
    call->Refuse(TextQueueFullError());
  }
  return call.get();
}

GenerateCall::GenerateCall(const CallEnvironment& environment, grpc::CallbackServerContext* context,
                           const grpc::ByteBuffer& request)
    : environment_(environment),
      deadline_(DeadlineOf(*context)),
      request_(request),
      context_(context),
      record_{.request_id = MakeRequestId(), .trace_id = TraceIdOf(*context)} {
  environment_.open_calls->Enter();
}

void GenerateCall::Begin() {
  {
    MutexLock lock(mutex_);
    if (CountIfRefused()) return;  // it ended while it waited: nobody wants its tokens
  }
  absl::StatusOr<ValidatedGenerate> validated = Read();
  request_.Clear();
  if (validated.ok()) {
    Submit(*std::move(validated));
  } else {
    Refuse(validated.status());
  }
}

absl::StatusOr<ValidatedGenerate> GenerateCall::Read() {
  v1::GenerateRequest request;
  RETURN_IF_ERROR(ParseRequest(request_, request));
  NameCall(request);
  return ValidateGenerate(*environment_.model, environment_.limits, request);
}

// The log has the name even if the rest is no good.
void GenerateCall::NameCall(v1::GenerateRequest& request) {
  MutexLock lock(mutex_);
  if (request.request_id().empty()) {
    request.set_request_id(record_.request_id);
  } else if (request.request_id().size() <= environment_.limits.max_request_id_bytes) {
    record_.request_id = request.request_id();
  }
}

void GenerateCall::Submit(ValidatedGenerate validated) {
  Request& request = validated.request;
  request.deadline = deadline_;
  CallRecord accepted;
  {
    MutexLock lock(mutex_);
    if (CountIfRefused()) return;
    record_.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    record_.max_tokens = request.stopping.max_tokens;
    record_.n = request.n;
    accepted = record_;
    output_.emplace(std::move(validated.output));
  }
  const absl::Status status = environment_.engine->Submit(std::move(request), shared_from_this());
  if (!status.ok()) {
    Refuse(status);
    return;
  }
  LogAccepted(accepted);
  CancelIfGivenUp(accepted.request_id);
}

// By the client, or by its deadline.
bool GenerateCall::CountIfRefused() {
  if (is_finished_) environment_.statistics->OnRefused(OutcomeName(record_.status));
  return is_finished_;
}

// A cancel that came before the engine knew the request went past it.
void GenerateCall::CancelIfGivenUp(const std::string& id) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = record_.status;
  }
  if (!status.ok()) environment_.engine->Cancel(id, this, status);
}

void GenerateCall::Refuse(const absl::Status& status) {
  environment_.statistics->OnRefused(OutcomeName(status));
  MutexLock lock(mutex_);
  FinishWith(status);
}

void GenerateCall::GiveUp(const absl::Status& status) {
  std::string id;
  {
    MutexLock lock(mutex_);
    if (is_finished_) return;
    FinishWith(status);
    id = record_.request_id;
  }
  environment_.engine->Cancel(id, this, status);
}

void GenerateCall::OnPromptLogprobs(std::span<const GeneratedToken> tokens) {
  MutexLock lock(mutex_);
  if (!is_finished_) output_->AddPromptLogprobs(tokens);
}

AfterTokens GenerateCall::OnTokens(std::uint32_t index, std::span<const GeneratedToken> tokens) {
  const std::size_t max_unread_bytes = environment_.limits.max_unread_bytes;
  {
    MutexLock lock(mutex_);
    if (is_finished_) return AfterTokens::kContinue;  // a Cancel is under way
    if (!record_.first_token) record_.first_token = record_.Age();
    record_.generated_tokens += static_cast<std::uint32_t>(tokens.size());
    const AfterTokens wish = output_->Add(index, tokens);
    WriteNext();
    if (output_->num_unread_bytes() <= max_unread_bytes) return wish;
  }
  GiveUp(WithReason(absl::ResourceExhaustedError(absl::StrCat("the client reads too slowly: more than ",
                                                              max_unread_bytes, " bytes wait for it")),
                    "SLOW_READER"));
  return AfterTokens::kContinue;
}

void GenerateCall::OnFinish(std::uint32_t index, const trireme::server::Finish& finish) {
  MutexLock lock(mutex_);
  if (is_finished_) return;
  record_.finish_reason = finish.reason;
  record_.cached_tokens = finish.cached_tokens;
  output_->End(index, finish);
  WriteNext();
}

void GenerateCall::OnError(const absl::Status& status) {
  MutexLock lock(mutex_);
  FinishWith(ForClient(status, has_written_));
}

void GenerateCall::OnWriteDone(bool ok) {
  if (!ok) {
    GiveUp(absl::CancelledError("the client is gone"));
    return;
  }
  MutexLock lock(mutex_);
  is_writing_ = false;
  WriteNext();
}

void GenerateCall::OnCancel() {
  const bool is_late = deadline_ <= absl::Now();
  GiveUp(is_late ? absl::DeadlineExceededError("the call's deadline has passed")
                 : absl::CancelledError("cancelled by the client"));
}

void GenerateCall::OnDone() {
  CallRecord record;
  {
    MutexLock lock(mutex_);
    context_ = nullptr;
    record = std::move(record_);
    record_.status = absl::Status(record.status.code(), "");  // for CountIfRefused and CancelIfGivenUp
  }
  LogEnd(record);  // on gRPC's thread, where nobody waits for a log that is slow
  environment_.open_calls->Leave();
  self_.reset();
}

void GenerateCall::WriteNext() {
  if (is_writing_ || is_finished_) return;
  const bool is_last = !output_->has_delta();
  if (is_last && !output_->is_ended()) return;
  absl::StatusOr<grpc::ByteBuffer> message =
      SerializeResponse(is_last ? output_->TakeComplete() : output_->TakeChunk());
  if (!message.ok()) return FinishWith(message.status());
  message_ = *std::move(message);
  if (is_last) {
    is_finished_ = true;
    StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    is_writing_ = has_written_ = true;
    StartWrite(&message_);
  }
}

void GenerateCall::FinishWith(const absl::Status& status) {
  if (is_finished_) return;
  is_finished_ = true;
  record_.status = status;
  environment_.statistics->OnFailure(OutcomeName(status), ReasonOf(status));
  Finish(ToGrpcStatus(status, environment_.limits.retry_delay));
  CancelLater();
}

// gRPC sends the status after what the client has not read yet, and keeps all of it until then.
void GenerateCall::CancelLater() {
  const absl::Time end = absl::Now() + environment_.limits.error_patience;
  farewell_.Set(absl::ToChronoTime(end), [weak = weak_from_this()](bool is_time) {
    const std::shared_ptr<GenerateCall> call = weak.lock();
    if (call == nullptr || !is_time) return;
    MutexLock lock(call->mutex_);
    if (call->context_ != nullptr) call->context_->TryCancel();
  });
}

}  // namespace trireme::server
