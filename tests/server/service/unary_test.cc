// The methods beside Generate, and what no typed client can send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <nlohmann/json.hpp>

#include "server/service/wire.h"
#include "tests/server/service/details.h"
#include "tests/server/service/service_fixture.h"

namespace trireme::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Calls any method with any bytes.
grpc::Status CallRaw(const TestServer& server, const std::string& method, const std::string& bytes) {
  const auto channel = server.NewChannel();
  const std::string path = "/trireme.v1.InferenceService/" + method;
  const bool is_streaming = method == "Generate";
  const grpc::internal::RpcMethod rpc(
      path.c_str(), is_streaming ? grpc::internal::RpcMethod::SERVER_STREAMING : grpc::internal::RpcMethod::NORMAL_RPC,
      channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  if (!is_streaming) return grpc::internal::BlockingUnaryCall(channel.get(), rpc, &context, request, &response);
  const std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(channel.get(), rpc, &context, request));
  while (reader->Read(&response)) {
  }
  return reader->Finish();
}

nlohmann::json TokenizerGolden() {
  return nlohmann::json::parse(std::ifstream(TRIREME_FIXTURES "/hf/text_llama/tokenizer_golden.json"));
}

TEST(Service, AnswersInvalidUtf8WithTheFieldsName) {
  TestServer server;
  const std::string bad_first_field = "\x0a\x02\xff\xfe";
  const grpc::Status generate = CallRaw(server, "Generate", bad_first_field);
  EXPECT_EQ(generate.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(ViolatedFields(generate), ElementsAre("request_id"));
  for (const char* method : {"Tokenize", "Detokenize", "GetModelInfo"}) {
    const grpc::Status status = CallRaw(server, method, bad_first_field);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(ViolatedFields(status), ElementsAre("model")) << method;
  }
  EXPECT_THAT(ViolatedFields(CallRaw(server, "Abort", bad_first_field)), ElementsAre("request_ids[0]"));
}

TEST(Service, RefusesUnknownFieldsOfEveryMethod) {
  TestServer server;
  const std::string field_15 = "\x78\x01";
  for (const char* method : {"Abort", "Tokenize", "Detokenize", "GetModelInfo", "GetServerInfo", "GetLoads"}) {
    const grpc::Status status = CallRaw(server, method, field_15);
    EXPECT_EQ(ReasonOf(status), "UNKNOWN_FIELD") << method;
  }
  EXPECT_EQ(ReasonOf(CallRaw(server, "Generate", "\xf8\x07\x01")), "UNKNOWN_FIELD");  // field 127
}

TEST(Service, RefusesAMessageOf100MegabytesAndGoesOn) {
  TestServer server;
  const grpc::Status status = CallRaw(server, "Generate", std::string(100 << 20, 'x'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("104857600"), HasSubstr("67108864")));
  EXPECT_TRUE(server.Generate(GenerateRequestFrom("token_ids { ids: 1 } stopping { max_tokens: 1 }")).status.ok());
}

TEST(Service, TakesTokenIdsBeyondGrpcsOwnDefaultOf4MiB) {
  TestServer server;
  v1::GenerateRequest request;
  for (int i = 0; i < 3'000'000; ++i) request.mutable_token_ids()->add_ids(500);
  const grpc::Status status = server.Generate(request).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("has 3000000 tokens, but the context holds 1024"));
}

TEST(Service, TellsAllViolationsInDetails) {
  TestServer server;
  const grpc::Status status =
      server.Generate(GenerateRequestFrom("sampling { temperature: nan } stopping { max_tokens: 0 }")).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(ViolatedFields(status), ElementsAre("input", "sampling.temperature", "stopping.max_tokens"));
}

TEST(Service, RefusesUnservedFieldsByName) {
  TestServer server;
  const grpc::Status status = server.Generate(GenerateRequestFrom("text: 'x' regex: 'a*'")).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(ViolatedFields(status), ElementsAre("regex"));
}

TEST(Tokenize, EqualsTheReference) {
  TestServer server;
  const nlohmann::json strings = TokenizerGolden()["strings"];
  for (const nlohmann::json& golden : strings) {
    for (const bool add_special : {false, true}) {
      v1::TokenizeRequest request;
      request.set_text(golden["text"].get<std::string>());
      request.set_add_special_tokens(add_special);
      v1::TokenizeResponse response;
      grpc::ClientContext context;
      ASSERT_TRUE(server.stub().Tokenize(&context, request, &response).ok());
      const auto expected = golden[add_special ? "ids_with_special" : "ids"].get<std::vector<std::uint32_t>>();
      EXPECT_THAT(response.token_ids(), ::testing::ElementsAreArray(expected));
      EXPECT_EQ(response.spans_size(), response.token_ids_size());
      EXPECT_EQ(response.text(), request.text());
    }
  }
}

TEST(Tokenize, RendersChatsAsTheReference) {
  TestServer server;
  const nlohmann::json golden = TokenizerGolden()["chats"][1];
  v1::TokenizeRequest request;
  for (const nlohmann::json& message : golden["messages"]) {
    v1::ChatMessage& proto = *request.mutable_chat()->add_messages();
    proto.set_role(message["role"].get<std::string>());
    proto.set_content(message["content"].get<std::string>());
  }
  v1::TokenizeResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().Tokenize(&context, request, &response).ok());
  EXPECT_EQ(response.text(), golden["text"].get<std::string>());
  EXPECT_THAT(response.token_ids(), ::testing::ElementsAreArray(golden["ids"].get<std::vector<std::uint32_t>>()));
}

TEST(Tokenize, NeedsAnInputAndATokenizer) {
  TestServer server, ids_only({.model = IdsOnlyTestModel()});
  v1::TokenizeResponse response;
  grpc::ClientContext first, second;
  EXPECT_THAT(ViolatedFields(server.stub().Tokenize(&first, {}, &response)), ElementsAre("input"));
  v1::TokenizeRequest request;
  request.set_text("x");
  EXPECT_EQ(ReasonOf(ids_only.stub().Tokenize(&second, request, &response)), "NO_TOKENIZER");
}

TEST(Detokenize, EqualsTheReferenceForAnyIds) {
  TestServer server;
  const nlohmann::json all = TokenizerGolden()["raw_ids"];
  for (const nlohmann::json& golden : all) {
    for (const bool skip : {false, true}) {
      v1::DetokenizeRequest request;
      for (const std::uint32_t id : golden["ids"]) request.add_token_ids(id);
      request.set_skip_special_tokens(skip);
      v1::DetokenizeResponse response;
      grpc::ClientContext context;
      ASSERT_TRUE(server.stub().Detokenize(&context, request, &response).ok());
      EXPECT_EQ(response.text(), golden[skip ? "decoded_skip_special" : "decoded"].get<std::string>());
    }
  }
}

TEST(Detokenize, RefusesIdsBeyondTheVocabulary) {
  TestServer server;
  v1::DetokenizeRequest request;
  request.add_token_ids(512);
  v1::DetokenizeResponse response;
  grpc::ClientContext context;
  EXPECT_THAT(ViolatedFields(server.stub().Detokenize(&context, request, &response)), ElementsAre("token_ids[0]"));
}

TEST(Detokenize, TakesNoMoreIdsThanItsLimit) {
  TestServer server({.limits = {.max_detokenize_ids = 3}});
  v1::DetokenizeRequest request;
  for (int i = 0; i < 3; ++i) request.add_token_ids(64);
  v1::DetokenizeResponse response;
  grpc::ClientContext first, second;
  EXPECT_TRUE(server.stub().Detokenize(&first, request, &response).ok());
  request.add_token_ids(64);
  const grpc::Status status = server.stub().Detokenize(&second, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(ViolatedFields(status), ElementsAre("token_ids"));
  EXPECT_THAT(status.error_message(), HasSubstr("has 4 ids, at most 3 are taken"));
}

TEST(Abort, NeedsIds) {
  TestServer server;
  v1::AbortResponse response;
  grpc::ClientContext context;
  EXPECT_THAT(ViolatedFields(server.stub().Abort(&context, {}, &response)), ElementsAre("request_ids"));
}

TEST(Abort, BoundsIdsAndReason) {
  TestServer server({.limits = {.max_abort_ids = 2, .max_abort_reason_bytes = 5}});
  v1::AbortRequest request;
  request.add_request_ids("a");
  request.add_request_ids("b");
  request.set_reason("grace");
  v1::AbortResponse response;
  grpc::ClientContext first, second;
  EXPECT_TRUE(server.stub().Abort(&first, request, &response).ok());
  request.add_request_ids("c");
  request.set_reason("mercy!");
  const grpc::Status status = server.stub().Abort(&second, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(ViolatedFields(status), ElementsAre("request_ids", "reason"));
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("has 3 ids, at most 2"), HasSubstr("has 6 bytes, at most 5")));
}

TEST(GetModelInfo, TellsTheModelAndItsLimits) {
  TestServer server;
  v1::GetModelInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().GetModelInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.model(), "text_llama");
  EXPECT_EQ(info.vocab_size(), 512u);
  EXPECT_EQ(info.max_model_len(), 1024u);
  EXPECT_THAT(info.eos_token_ids(), ElementsAre(507));
  EXPECT_FALSE(info.has_bos_token_id());
  EXPECT_EQ(info.pad_token_id(), 505u);
  EXPECT_TRUE(info.has_tokenizer());
  EXPECT_TRUE(info.has_chat_template());
  EXPECT_EQ(info.default_sampling().temperature(), 1);
  EXPECT_EQ(info.limits().max_message_bytes(), 64u << 20);
  EXPECT_EQ(info.limits().max_logprobs(), 20u);
  EXPECT_EQ(info.limits().chat_message_bytes(), 64u);
  EXPECT_EQ(info.limits().max_detokenize_ids(), 1u << 20);
  EXPECT_EQ(info.limits().max_abort_ids(), 4096u);
  EXPECT_EQ(info.limits().max_abort_reason_bytes(), 256u);
  EXPECT_TRUE(info.supports_tp_plan());
  EXPECT_THAT(info.valid_tp_degrees(), ElementsAre(1, 2, 4));
}

TEST(GetServerInfo, TellsRanksAndTheFirstCause) {
  TestServer server;
  GroupStatus status;
  status.generation = 3;
  status.num_restarts = 2;
  status.last_loss = {{.kind = CauseKind::kExited, .rank = 1, .status = absl::AbortedError("rank 1 died")},
                      absl::FromUnixMillis(1234567)};
  status.ranks.resize(2);
  status.ranks[0].pid = 77;
  status.ranks[0].state = RankState::kReady;
  status.ranks[1].state = RankState::kLoading;
  status.ranks[1].loaded_bytes = 5;
  status.ranks[1].total_bytes = 9;
  server.set_group_status(status);
  v1::GetServerInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().GetServerInfo(&context, {}, &info).ok());
  EXPECT_FALSE(info.build_id().empty());
  EXPECT_EQ(info.tp_degree(), 2u);
  EXPECT_EQ(info.dtype(), "float32");
  EXPECT_EQ(info.state(), v1::SERVER_STATE_SERVING);
  EXPECT_EQ(info.group_generation(), 3u);
  EXPECT_EQ(info.group_restarts(), 2u);
  EXPECT_EQ(info.last_restart_reason(), "rank 1 died");
  EXPECT_EQ(info.last_loss().rank(), 1u);
  EXPECT_EQ(info.last_loss().kind(), v1::GROUP_LOSS_KIND_EXITED);
  EXPECT_EQ(info.last_loss().time().seconds(), 1234);
  EXPECT_EQ(info.last_loss().time().nanos(), 567'000'000);
  ASSERT_EQ(info.ranks_size(), 2);
  EXPECT_EQ(info.ranks(0).state(), v1::RANK_STATE_READY);
  EXPECT_EQ(info.ranks(0).pid(), 77);
  EXPECT_EQ(info.ranks(1).state(), v1::RANK_STATE_LOADING);
  EXPECT_EQ(info.ranks(1).loaded_bytes(), 5u);
  EXPECT_EQ(info.ranks(1).total_load_bytes(), 9u);
}

TEST(GetServerInfo, TellsOfNoLossBeforeThereWasOne) {
  TestServer server;
  v1::GetServerInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.last_restart_reason(), "");
  EXPECT_FALSE(info.has_last_loss());
}

TEST(GetServerInfo, TellsOfALossThatBeganWithNoRank) {
  TestServer server;
  GroupStatus status;
  status.last_loss = {{.kind = CauseKind::kNotStarted, .rank = {}, .status = absl::NotFoundError("no program")},
                      absl::UnixEpoch()};
  server.set_group_status(status);
  v1::GetServerInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.last_loss().kind(), v1::GROUP_LOSS_KIND_NOT_STARTED);
  EXPECT_FALSE(info.last_loss().has_rank());
}

TEST(GetServerInfo, TellsEachState) {
  TestServer server({.is_group_up = false});
  const auto state = [&server] {
    v1::GetServerInfoResponse info;
    grpc::ClientContext context;
    EXPECT_TRUE(server.stub().GetServerInfo(&context, {}, &info).ok());
    return info.state();
  };
  const auto becomes = [&state](v1::ServerState wanted) {
    for (int i = 0; i < 2000 && state() != wanted; ++i) absl::SleepFor(absl::Milliseconds(1));
    return state() == wanted;
  };
  EXPECT_EQ(state(), v1::SERVER_STATE_LOADING);
  server.group().BringUp();
  EXPECT_TRUE(becomes(v1::SERVER_STATE_SERVING));
  server.engine().Drain();
  EXPECT_TRUE(becomes(v1::SERVER_STATE_DRAINING));
  GroupStatus given_up;
  given_up.is_given_up = true;
  server.set_group_status(given_up);
  EXPECT_EQ(state(), v1::SERVER_STATE_FAILED);
}

TEST(GetLoads, CountsRequestsSequencesAndTokens) {
  TestServer server;
  server.group().Pause();
  grpc::ClientContext running;
  const auto reader = server.stub().Generate(&running, GenerateRequestFrom("token_ids { ids: [1, 2, 3, 4, 5] }"));
  v1::GetLoadsResponse loads;
  for (int i = 0; i < 2000 && loads.running_requests() == 0; ++i) {
    grpc::ClientContext context;
    ASSERT_TRUE(server.stub().GetLoads(&context, {}, &loads).ok());
  }
  EXPECT_EQ(loads.running_requests(), 1u);
  EXPECT_EQ(loads.waiting_requests(), 0u);
  EXPECT_EQ(loads.running_sequences(), 1u);
  EXPECT_EQ(loads.waiting_sequences(), 0u);
  EXPECT_EQ(loads.max_running_sequences(), 16u);
  EXPECT_EQ(loads.used_kv_tokens(), 8u);  // two blocks of four
  EXPECT_EQ(loads.total_kv_tokens(), 4u * 4096);
  running.TryCancel();
  server.group().Resume();
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
}

TEST(GetLoads, TellsOfSequencesThatWaitBesideTheirRequestsOthers) {
  TestServer server({.group = TestGroup(absl::Milliseconds(2))});
  grpc::ClientContext running;
  const auto reader = server.stub().Generate(
      &running, GenerateRequestFrom("token_ids { ids: [1, 2, 3] } sampling { n: 20 } stopping { ignore_eos: true }"));
  v1::GetLoadsResponse loads;
  for (int i = 0; i < 2000 && loads.running_sequences() < 16; ++i) {
    grpc::ClientContext context;
    ASSERT_TRUE(server.stub().GetLoads(&context, {}, &loads).ok());
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(loads.running_requests(), 1u);
  EXPECT_EQ(loads.waiting_requests(), 0u);
  EXPECT_EQ(loads.running_sequences(), loads.max_running_sequences());
  EXPECT_EQ(loads.waiting_sequences(), 4u);
  running.TryCancel();
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace trireme::server
