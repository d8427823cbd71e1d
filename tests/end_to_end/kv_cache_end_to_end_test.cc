// What --kv-cache-memory does to the length of requests, in the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "absl/time/clock.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/sanitizers.h"

namespace trireme::end_to_end {
namespace {

using test_support::kSlowdown;
using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kTinyModel = TRIREME_FIXTURES "/hf/text_llama";

// Prompt and output of one request that goes on as long as it may.
std::uint32_t LongestRequest(ServerProcess& server) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids(1);
  request.mutable_stopping()->set_ignore_eos(true);
  request.set_stream(false);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60) * kSlowdown));
  const auto reader = server.stub().Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.complete().usage().prompt_tokens() + response.complete().usage().completion_tokens();
}

TEST(KvCacheMemory, LowersTheLengthThatIsToldAndServed) {
  ServerProcess server(kTinyModel, {"--dtype", "float32", "--kv-cache-memory", "64KiB"});
  ASSERT_TRUE(server.BecomesServing());
  v1::GetModelInfoResponse info;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
  ASSERT_TRUE(server.stub().GetModelInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.max_model_len(), 129u);  // eight blocks of 16 tokens, and a last one that takes no place
  EXPECT_EQ(LongestRequest(server), 129u);
  EXPECT_THAT(server.log(), HasSubstr("max_model_len is lowered"));
}

TEST(KvCacheMemory, IsRefusedWhereItCannotHoldTheLengthAskedFor) {
  ServerProcess server(kTinyModel, {"--dtype", "float32", "--kv-cache-memory", "64KiB", "--max-model-len", "1000"});
  const std::optional<int> status = server.WaitForExit();
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 1);
  EXPECT_THAT(server.log(), AllOf(HasSubstr("1000"), HasSubstr("65536"), HasSubstr("129")));
  EXPECT_FALSE(server.WaitForLog("worker started").has_value());
}

}  // namespace
}  // namespace trireme::end_to_end
