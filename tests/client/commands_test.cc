#include "client/cli/commands.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/version.h"
#include "tests/client/run_line.h"
#include "tests/client/scripted_server.h"

namespace trireme::client {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// ---- All commands.

TEST(Trireme, ExplainsItself) {
  EXPECT_EQ(RunLine({}).exit_status, kExitUsage);
  EXPECT_EQ(RunLine({"--help"}).exit_status, kExitOk);
  EXPECT_THAT(RunLine({"--help"}).out, HasSubstr("trireme generate"));
  EXPECT_EQ(RunLine({"--version"}).out, "trireme " + std::string(BuildId()) + "\n");
  const Ran unknown = RunLine({"sail"});
  EXPECT_EQ(unknown.exit_status, kExitUsage);
  EXPECT_EQ(unknown.err, "trireme: unknown command \"sail\"\nSee trireme --help.\n");
}

TEST(Trireme, ExplainsEachCommandAndRefusesUnknownFlags) {
  for (const std::string command : {"generate", "chat", "health", "plan"}) {
    const Ran help = RunLine({command, "--help"});
    EXPECT_EQ(help.exit_status, kExitOk);
    EXPECT_THAT(help.out, StartsWith("trireme " + command + ": "));
    EXPECT_EQ(RunLine({command, "--version"}).out, "trireme " + std::string(BuildId()) + "\n");
    const Ran unknown = RunLine({command, "--oars", "170"});
    EXPECT_EQ(unknown.exit_status, kExitUsage);
    EXPECT_EQ(unknown.err, "trireme " + command + ": unknown flag \"--oars\"\nSee trireme " + command + " --help.\n");
    EXPECT_EQ(unknown.out, "");
  }
}

// ---- generate.

TEST(Generate, StreamsTextAndTellsWhatItCost) {
  ScriptedServer server(SayHello);
  const Ran ran = RunLine({"generate", "--target", server.target(), "--prompt", "Say hello"});
  EXPECT_EQ(ran.exit_status, kExitOk);
  EXPECT_EQ(ran.out, "Hello world\n");
  EXPECT_THAT(ran.err, MatchesRegex("\\[2 tokens, time to first token [0-9]+ ms, [0-9.]+ tokens/s, finished: length, "
                                    "seed 7\\]\n"));
}

TEST(Generate, SendsWhatItIsToldAndLeavesTheRestToTheServer) {
  ScriptedServer server(SayHello);
  ASSERT_EQ(RunLine({"generate", "--target", server.target(), "--prompt", ""}).exit_status, kExitOk);
  ASSERT_EQ(RunLine({"generate", "--target=" + server.target(), "--prompt-ids", "1,2,3", "--max-tokens", "9",
                     "--temperature", "0.5", "--top-k", "0", "--top-p=0.25", "--seed", "18446744073709551615",
                     "--logprobs", "0", "--ignore-eos", "--request-id", "me", "--stream=false"})
                .exit_status,
            kExitOk);
  ASSERT_EQ(RunLine({"generate", "--target", server.target(), "--chat", "-"}, R"([{"role": "user", "content": "hi"}])")
                .exit_status,
            kExitOk);
  const std::vector<v1::GenerateRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);

  v1::GenerateRequest plain;
  plain.set_text("");
  EXPECT_EQ(requests[0].SerializeAsString(), plain.SerializeAsString());

  v1::GenerateRequest full;
  for (const std::uint32_t id : {1u, 2u, 3u}) full.mutable_token_ids()->add_ids(id);
  full.mutable_stopping()->set_max_tokens(9);
  full.mutable_stopping()->set_ignore_eos(true);
  full.mutable_sampling()->set_temperature(0.5f);
  full.mutable_sampling()->set_top_k(0);
  full.mutable_sampling()->set_top_p(0.25f);
  full.mutable_sampling()->set_seed(18446744073709551615u);
  full.mutable_output()->set_logprobs(0);
  full.set_request_id("me");
  full.set_stream(false);
  EXPECT_EQ(requests[1].DebugString(), full.DebugString());

  EXPECT_EQ(requests[2].chat().messages(0).content(), "hi");
}

TEST(Generate, SendsEachFieldThatThereIsAFlagFor) {
  ScriptedServer server(SayHello);
  const Ran ran = RunLine({"generate",
                           "--target",
                           server.target(),
                           "--prompt",
                           "x",
                           "--add-special-tokens=false",
                           "--truncate-prompt-tokens=7",
                           "--min-p=0.125",
                           "--typical-p=0.5",
                           "--repetition-penalty=1.5",
                           "--presence-penalty=-1",
                           "--frequency-penalty=2",
                           "--logit-bias=5=-1.5",
                           "--logit-bias",
                           "6=100",
                           "--bad-word=damn",
                           "--bad-word",
                           "a b",
                           "--n=1",
                           "--min-tokens=2",
                           "--stop=,",
                           "--stop",
                           "",
                           "--stop=a,b",
                           "--stop-token-ids=3,4",
                           "--include-stop",
                           "--time-limit=1m0.5s",
                           "--prompt-logprobs=0",
                           "--echo",
                           "--skip-special-tokens=false",
                           "--model=m",
                           "--priority=-5",
                           "--cache-salt=s"});
  ASSERT_EQ(ran.exit_status, kExitOk) << ran.err;
  v1::GenerateRequest expected;
  const std::string text = R"pb(
    text: "x"
    model: "m"
    priority: -5
    cache_salt: "s"
    add_special_tokens: false
    truncate_prompt_tokens: 7
    sampling {
      min_p: 0.125
      typical_p: 0.5
      repetition_penalty: 1.5
      presence_penalty: -1
      frequency_penalty: 2
      n: 1
      logit_bias { key: 5 value: -1.5 }
      logit_bias { key: 6 value: 100 }
    }
    stopping {
      min_tokens: 2
      stop: [ ",", "", "a,b" ]
      stop_token_ids: [ 3, 4 ]
      include_stop_str_in_output: true
      time_limit { seconds: 60 nanos: 500000000 }
      bad_words: [ "damn", "a b" ]
    }
    output { prompt_logprobs: 0 echo: true skip_special_tokens: false }
  )pb";
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(server.requests().at(0), expected))
      << server.requests().at(0).DebugString();
}

// Fields that generate has no flag for: others are of no use without a file of their own.
TEST(Generate, HasAFlagForEachField) {
  const std::string help = RunLine({"generate", "--help"}).out;
  const std::map<std::string, std::string> spelled = {{"text", "prompt"},
                                                      {"token_ids", "prompt-ids"},
                                                      {"include_stop_str_in_output", "include-stop"},
                                                      {"bad_words", "bad-word"}};
  const std::set<std::string> without = {"sampling", "stopping", "output", "json_schema", "json_object",
                                         "regex",    "grammar",  "choice", "adapter_id"};
  for (const google::protobuf::Descriptor* type : {v1::GenerateRequest::descriptor(), v1::SamplingParams::descriptor(),
                                                   v1::StoppingParams::descriptor(), v1::OutputOptions::descriptor()}) {
    for (int i = 0; i < type->field_count(); ++i) {
      const std::string& name = type->field(i)->name();
      if (without.contains(name)) continue;
      const auto found = spelled.find(name);
      const std::string flag =
          "--" + (found != spelled.end() ? found->second : absl::StrReplaceAll(name, {{"_", "-"}}));
      EXPECT_THAT(help, testing::ContainsRegex("\n  " + flag + " ")) << name;
    }
  }
  EXPECT_THAT(help, HasSubstr("\nHow tokens are chosen:\n"));
}

// Two continuations, mixed as they come.
v1::GenerateResponse ChunkOfIndex(std::uint32_t index, const std::string& text, std::uint32_t token_id) {
  v1::GenerateResponse response = ChunkOf(text, token_id);
  response.mutable_chunk()->set_index(index);
  response.mutable_chunk()->add_logprobs()->set_token_id(token_id);
  return response;
}

TEST(Generate, PrintsContinuationsOneAfterTheOther) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer* writer) {
    writer->Write(ChunkOfIndex(0, "Hel", 10));
    writer->Write(ChunkOfIndex(1, "Good", 12));
    writer->Write(ChunkOfIndex(0, "lo", 11));
    writer->Write(ChunkOfIndex(1, "bye", 13));
    v1::GenerateResponse response = CompleteOf("Hello", {10, 11});
    v1::Completion& second = *response.mutable_complete()->add_completions();
    second.set_index(1);
    second.set_text("Goodbye");
    second.set_finish_reason(v1::FINISH_REASON_STOP);
    second.set_matched_stop_string("\n");
    writer->Write(response);
    return grpc::Status::OK;
  });
  const Ran ran = RunLine({"generate", "--target", server.target(), "--prompt", "x", "--n", "2"});
  EXPECT_EQ(ran.out, "[1 of 2]\nHello\n[2 of 2]\nGoodbye\n");
  EXPECT_THAT(ran.err, MatchesRegex("\\[1 of 2\\]\n.*token 10 .*\n.*token 11 .*\n\\[2 of 2\\]\n.*token 12 .*\n.*13 .*\n"
                                    "\\[4 tokens in 2 continuations, time to first token [0-9]+ ms, [0-9.]+ tokens/s, "
                                    "finished: length; stop at \"\\\\n\", seed 7\\]\n"));
}

TEST(Generate, PrintsWhatCameOfSeveralContinuationsBeforeAnError) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer* writer) {
    writer->Write(ChunkOfIndex(1, "Good", 12));
    return grpc::Status(grpc::StatusCode::ABORTED, "rank 2 was killed");
  });
  const Ran ran = RunLine({"generate", "--target", server.target(), "--prompt", "x", "--n", "2"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_EQ(ran.out, "[1 of 2]\n\n[2 of 2]\nGood\n");
}

TEST(Generate, PrintsNothingWhereNothingCame) {
  ScriptedServer server(
      [](int, grpc::ServerContext*, Writer*) { return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no"); });
  for (const char* n : {"1", "3", "4000000000"}) {
    EXPECT_EQ(RunLine({"generate", "--target", server.target(), "--prompt", "x", "--n", n}).out, "");
  }
}

TEST(Generate, PrintsAJsonObjectForEachMessage) {
  ScriptedServer server(SayHello);
  const Ran ran = RunLine({"generate", "--target", server.target(), "--prompt", "x", "--json"});
  EXPECT_EQ(ran.exit_status, kExitOk);
  EXPECT_EQ(ran.err, "");
  const std::vector<std::string> lines = absl::StrSplit(ran.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], R"({"request_id":"r1","chunk":{"text":"Hello","token_ids":[10]}})");
  v1::GenerateResponse last;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(lines[2], &last).ok());
  EXPECT_EQ(last.DebugString(), CompleteOf("Hello world", {10, 11}).DebugString());
}

TEST(Generate, PrintsTokenIdsWhereThereIsNoText) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer* writer) {
    writer->Write(ChunkOf("", 10));
    writer->Write(ChunkOf("", 11));
    writer->Write(CompleteOf("", {10, 11}));
    return grpc::Status::OK;
  });
  EXPECT_EQ(RunLine({"generate", "--target", server.target(), "--prompt-ids", "1"}).out, "10 11\n");
}

TEST(Generate, PrintsAnAnswerThatWasNotStreamed) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer* writer) {
    writer->Write(CompleteOf("Hello world", {10, 11}));
    return grpc::Status::OK;
  });
  const Ran ran = RunLine({"generate", "--target", server.target(), "--prompt", "x", "--stream=false"});
  EXPECT_EQ(ran.out, "Hello world\n");
  EXPECT_EQ(ran.err, "[2 tokens, finished: length, seed 7]\n");
}

TEST(Generate, ShowsLogprobs) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer* writer) {
    v1::GenerateResponse response = ChunkOf("Hi", 10);
    v1::TokenLogprob& logprob = *response.mutable_chunk()->add_logprobs();
    logprob.set_token_id(10);
    logprob.set_token("Hé\n");
    logprob.set_logprob(-0.5f);
    logprob.set_rank(2);
    logprob.add_top()->set_token_id(3);
    writer->Write(response);
    writer->Write(CompleteOf("Hi", {10}));
    return grpc::Status::OK;
  });
  const Ran ran = RunLine({"generate", "--target", server.target(), "--prompt", "x", "--logprobs", "1"});
  EXPECT_EQ(ran.out, "Hi\n");
  EXPECT_THAT(ran.err, StartsWith("  -0.5000  rank 2      token 10      \"Hé\\n\"  | 0.0000 3 \"\"\n[1 token, "));
}

TEST(Generate, ReportsTheStatusAndWhatCameBefore) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer* writer) {
    writer->Write(ChunkOf("Hello", 10));
    return grpc::Status(grpc::StatusCode::ABORTED, "rank 2 was killed");
  });
  const Ran ran = RunLine({"generate", "--target", server.target(), "--prompt", "x"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_EQ(ran.out, "Hello\n");
  EXPECT_EQ(ran.err, "trireme generate: ABORTED: rank 2 was killed\n");
}

TEST(Generate, GivesUpAfterItsTimeout) {
  ScriptedServer server(SayHelloAndHang);
  const Ran ran = RunLine({"generate", "--target", server.target(), "--prompt", "x", "--timeout", "50ms"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_THAT(ran.err, StartsWith("trireme generate: DEADLINE_EXCEEDED: "));
}

TEST(Generate, RefusesWrongUse) {
  const std::string one_of = "expected exactly one of --prompt, --prompt-ids, --chat";
  const std::pair<Arguments, std::string> cases[] = {
      {{"generate"}, one_of},
      {{"generate", "--prompt", "x", "--prompt-ids", "1"}, one_of},
      {{"generate", "--chat", "/no/such/file"}, "/no/such/file: cannot be opened"},
      {{"generate", "--prompt-ids", "1,-2"}, "--prompt-ids: expected whole numbers"},
      {{"generate", "--prompt", "x", "--temperature", "nan"}, "--temperature: expected a finite number, got \"nan\""},
      {{"generate", "--prompt", "x", "--max-tokens"}, "--max-tokens needs a value (N)"},
      {{"generate", "--prompt", "x", "--logit-bias", "5"}, "--logit-bias: expected a token id and a number"},
      {{"generate", "--prompt", "x", "--logit-bias", "-5=1"}, "got \"-5=1\""},
      {{"generate", "--prompt", "x", "--logit-bias", "5=1", "--logit-bias", "5=2"}, "token 5 is given twice"},
      {{"generate", "--prompt", "x", "--time-limit", "5"}, "--time-limit: expected a duration with its unit"},
      {{"generate", "hello"}, "unexpected argument \"hello\""},
  };
  for (const auto& [arguments, message] : cases) {
    const Ran ran = RunLine(arguments);
    EXPECT_EQ(ran.exit_status, kExitUsage) << message;
    EXPECT_THAT(ran.err, HasSubstr(message));
    EXPECT_EQ(ran.out, "");
  }
}

// ---- chat.

TEST(Chat, KeepsTheConversation) {
  ScriptedServer server(SayHello);
  const Ran ran = RunLine({"chat", "--target", server.target(), "--system", "Be brief.", "--max-tokens", "5"},
                          "Who?\n\nAnd why?\n");
  EXPECT_EQ(ran.exit_status, kExitOk);
  EXPECT_EQ(ran.out, "Hello world\nHello world\n");
  const std::vector<v1::GenerateRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].stopping().max_tokens(), 5u);
  std::string said;
  for (const v1::ChatMessage& message : requests[1].chat().messages()) {
    said += message.role() + ": " + message.content() + "\n";
  }
  EXPECT_EQ(said, "system: Be brief.\nuser: Who?\nassistant: Hello world\nuser: And why?\n");
}

TEST(Chat, ForgetsAQuestionWhoseCallFailedAndGoesOn) {
  ScriptedServer server([](int call, grpc::ServerContext* context, Writer* writer) {
    return call == 0 ? grpc::Status(grpc::StatusCode::INTERNAL, "oops") : SayHello(call, context, writer);
  });
  const Ran ran = RunLine({"chat", "--target", server.target()}, "one\ntwo\n");
  EXPECT_EQ(ran.exit_status, kExitOk);
  EXPECT_THAT(ran.err, StartsWith("trireme chat: INTERNAL: oops\n"));
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(server.requests()[1].chat().messages_size(), 1);
  EXPECT_EQ(server.requests()[1].chat().messages(0).content(), "two");
}

TEST(Chat, FailsIfTheLastCallDid) {
  ScriptedServer server([](int, grpc::ServerContext*, Writer*) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no chat template");
  });
  EXPECT_EQ(RunLine({"chat", "--target", server.target()}, "one\n").exit_status, kExitFailed);
}

// ---- health.

TEST(Health, TellsByItsExitStatus) {
  using grpc::health::v1::HealthCheckResponse;
  ScriptedServer server(SayHello);
  Ran ran = RunLine({"health", "--target", server.target()});
  EXPECT_EQ(ran.exit_status, kExitOk);
  EXPECT_EQ(ran.out, "SERVING\n");
  server.set_health({HealthCheckResponse::NOT_SERVING});
  ran = RunLine({"health", "--target", server.target()});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_EQ(ran.out, "NOT_SERVING\n");
  ran = RunLine({"health", "--target", server.target(), "--service", "x"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_EQ(ran.err, "trireme health: NOT_FOUND: no service x\n");
}

TEST(Health, WatchesChanges) {
  using grpc::health::v1::HealthCheckResponse;
  ScriptedServer server(SayHello);
  server.set_health({HealthCheckResponse::NOT_SERVING, HealthCheckResponse::SERVING, HealthCheckResponse::NOT_SERVING});
  EXPECT_EQ(RunLine({"health", "--watch", "--target", server.target()}).out, "NOT_SERVING\nSERVING\nNOT_SERVING\n");
}

// ---- plan.

const std::string kLlama = std::string(TRIREME_FIXTURES) + "/hf/llama";

TEST(Plan, ShowsModulesCollectivesAndTotals) {
  const Ran ran = RunLine({"plan", "--model", kLlama, "--tp-degree", "2", "--rank", "1"});
  EXPECT_EQ(ran.exit_status, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(": llama, tp_degree 2, float32\n"));
  EXPECT_THAT(ran.out, HasSubstr("Rank 1 of 2\n"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("model\\.layers\\.\\*\\.self_attn\\.q_proj +x[0-9]+ +colwise "));
  EXPECT_THAT(ran.out, testing::ContainsRegex("self_attn\\.o_proj +x[0-9]+ +all_reduce "));
  EXPECT_THAT(ran.out, testing::ContainsRegex("Valid tp_degree: 1, 2"));
}

TEST(Plan, CountsInJsonTheBytesThatARankHolds) {
  const Ran ran = RunLine({"plan", "--model", kLlama, "--tp-degree", "2", "--json"});
  ASSERT_EQ(ran.exit_status, kExitOk) << ran.err;
  const nlohmann::json plan = nlohmann::json::parse(ran.out);
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan["model_type"], "llama");
  ASSERT_EQ(plan["ranks"].size(), 2u);
  for (const nlohmann::json& rank : plan["ranks"]) {
    std::int64_t bytes = 0;
    for (const nlohmann::json& module : rank["modules"]) {
      EXPECT_TRUE(module["strategy"].is_string());
      bytes += module["local_bytes"].get<std::int64_t>();
    }
    EXPECT_EQ(bytes, rank["weight_bytes"].get<std::int64_t>());
    EXPECT_FALSE(rank["collectives"].empty());
  }
  const Ran half = RunLine({"plan", "--model", kLlama, "--tp-degree", "2", "--json", "--dtype", "bfloat16"});
  const std::int64_t norms = 7 * 64;  // elements; they stay float32
  EXPECT_EQ(nlohmann::json::parse(half.out)["ranks"][0]["weight_bytes"].get<std::int64_t>() * 2,
            plan["ranks"][0]["weight_bytes"].get<std::int64_t>() + 4 * norms);
}

TEST(Plan, SaysWhyADegreeDoesNotFitAndWhichDo) {
  Ran ran = RunLine({"plan", "--model", kLlama, "--tp-degree", "7"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, StartsWith("trireme plan: INVALID_ARGUMENT: tp_degree 7 does not fit the model:\n"));
  EXPECT_THAT(ran.err, HasSubstr("\nvalid tp_degree: 1, 2"));
  ran = RunLine({"plan", "--model", kLlama, "--tp-degree", "7", "--json"});
  EXPECT_EQ(ran.exit_status, kExitFailed);
  const nlohmann::json plan = nlohmann::json::parse(ran.out);
  EXPECT_EQ(plan["fits"], false);
  EXPECT_EQ(plan["valid_tp_degrees"], nlohmann::json({1, 2, 4}));
  ASSERT_GE(plan["problems"].size(), 2u);
  for (const nlohmann::json& problem : plan["problems"]) {
    EXPECT_THAT(problem.get<std::string>(), HasSubstr("model.layers"));
    EXPECT_THAT(ran.err, HasSubstr("\n  " + problem.get<std::string>() + "\n"));
  }
}

TEST(Plan, RefusesWrongUseAndMissingModels) {
  EXPECT_EQ(RunLine({"plan", "--model", kLlama}).exit_status, kExitUsage);
  EXPECT_EQ(RunLine({"plan", "--model", kLlama, "--tp-degree", "0"}).exit_status, kExitUsage);
  EXPECT_EQ(RunLine({"plan", "--model", kLlama, "--tp-degree", "129"}).exit_status, kExitUsage);
  EXPECT_THAT(RunLine({"plan", "--model", kLlama, "--tp-degree", "2", "--rank", "2"}).err,
              HasSubstr("--rank: expected a number from 0 to 1, got 2"));
  EXPECT_THAT(RunLine({"plan", "--model", kLlama, "--tp-degree", "2", "--dtype", "int4"}).err,
              HasSubstr("--dtype: expected float32 or bfloat16, got \"int4\""));
  const Ran missing = RunLine({"plan", "--model", "/no/such/model", "--tp-degree", "1", "--json"});
  EXPECT_EQ(missing.exit_status, kExitFailed);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/model"));
  EXPECT_EQ(nlohmann::json::parse(missing.out)["fits"], false);
  EXPECT_EQ(RunLine({"plan", "--model", kLlama, "--tp-degree", "2", "--plan", "/no/such/plan"}).exit_status,
            kExitFailed);
}

}  // namespace
}  // namespace trireme::client
