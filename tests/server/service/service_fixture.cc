#include "tests/server/service/service_fixture.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace trireme::server {

std::string GenerateResult::ChunkText() const {
  std::string text;
  for (const v1::Chunk& chunk : chunks) text += chunk.text();
  return text;
}

std::vector<std::uint32_t> GenerateResult::ChunkTokenIds() const {
  std::vector<std::uint32_t> ids;
  for (const v1::Chunk& chunk : chunks) ids.insert(ids.end(), chunk.token_ids().begin(), chunk.token_ids().end());
  return ids;
}

FakeGroupOptions TestGroup(absl::Duration step_time) {
  FakeGroupOptions options;
  options.limits = {.max_num_seqs = 16, .max_num_batched_tokens = 64, .max_logit_rows = 20, .kv_block_tokens = 4};
  options.num_kv_blocks = {4096};
  options.vocab_size = kTestVocabulary;
  options.step_time = step_time;
  return options;
}

TestServer::TestServer(TestServerOptions options)
    : options_(std::move(options)),
      group_(options_.group),
      engine_({.limits = options_.group.limits, .max_model_len = options_.model.max_model_len}, &metrics_) {
  group_.SetListener(&engine_);
  engine_.Start(&group_);
  if (options_.is_group_up) group_.BringUp();
  service_ = std::make_unique<InferenceService>(
      InferenceServiceOptions{.model = &options_.model,
                              .engine = &engine_,
                              .statistics = options_.statistics != nullptr ? options_.statistics : &metrics_,
                              .group_status = [this] { return group_status(); },
                              .limits = options_.limits,
                              .max_num_seqs = options_.group.limits.max_num_seqs,
                              .kv_block_tokens = options_.group.limits.kv_block_tokens,
                              .hides_internals = options_.hides_internals});
  absl::StatusOr<std::unique_ptr<RpcServer>> server =
      RpcServer::Start({.listen = "127.0.0.1:0",
                        .max_message_bytes = options_.limits.max_message_bytes,
                        .has_reflection = options_.has_reflection,
                        .credentials = options_.credentials,
                        .hides_internals = options_.hides_internals},
                       {service_.get(), &health_});
  CHECK_OK(server.status());
  server_ = *std::move(server);
  stub_ = v1::InferenceService::NewStub(NewChannel());
}

TestServer::~TestServer() {
  health_.Shutdown();
  server_->Shutdown(absl::Now() + absl::Seconds(1));
  engine_.Stop();
  group_.Shutdown();
}

std::string TestServer::target() const { return absl::StrCat("127.0.0.1:", server_->port()); }

std::shared_ptr<grpc::Channel> TestServer::NewChannel(const grpc::ChannelArguments& arguments) const {
  grpc::ChannelArguments own = arguments;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  return grpc::CreateCustomChannel(target(), grpc::InsecureChannelCredentials(), own);
}

GenerateResult TestServer::Generate(const v1::GenerateRequest& request, grpc::ClientContext* context) {
  grpc::ClientContext own_context;
  if (context == nullptr) {
    context = &own_context;
    context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  }
  const auto reader = stub_->Generate(context, request);
  return ReadAll(*reader);
}

bool TestServer::BecomesBusy() {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (absl::Now() < deadline) {
    const Loads loads = engine_.loads();
    if (loads.running_requests + loads.waiting_requests > 0) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

bool TestServer::BecomesIdle() {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  if (!engine_.WaitUntilIdle(deadline)) return false;
  while (engine_.loads().used_kv_blocks > 0) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

GroupStatus TestServer::group_status() {
  MutexLock lock(mutex_);
  return group_status_;
}

void TestServer::set_group_status(GroupStatus status) {
  MutexLock lock(mutex_);
  group_status_ = std::move(status);
}

GenerateResult ReadAll(grpc::ClientReader<v1::GenerateResponse>& reader) {
  GenerateResult result;
  v1::GenerateResponse response;
  while (reader.Read(&response)) {
    CHECK(!result.complete.has_value()) << " a message after the last";
    result.request_id = response.request_id();
    if (response.has_chunk()) result.chunks.push_back(response.chunk());
    if (response.has_complete()) result.complete = response.complete();
  }
  result.status = reader.Finish();
  return result;
}

v1::GenerateRequest GenerateRequestFrom(const std::string& text_format) {
  v1::GenerateRequest request;
  CHECK(google::protobuf::TextFormat::ParseFromString(text_format, &request)) << text_format;
  return request;
}

}  // namespace trireme::server
