// `trireme generate`.
#include <google/protobuf/util/json_util.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "client/cli/answer_printer.h"
#include "client/cli/call_flags.h"
#include "client/cli/chat_file.h"
#include "client/cli/commands.h"
#include "client/inference_client.h"

namespace trireme::client {
namespace {

constexpr char kProgram[] = "trireme generate";

struct Options {
  TargetFlags target;
  GenerateFlags generate;
  std::optional<std::string> prompt;
  std::optional<std::vector<std::uint32_t>> prompt_ids;
  std::optional<std::string> chat;
  std::optional<std::uint32_t> logprobs;
  std::string request_id;
  bool stream = true;
  bool json = false;
};

FlagParser DeclareFlags(Options* options) {
  FlagParser flags(kProgram, "streams the answer to a prompt; exactly one of --prompt, --prompt-ids, --chat");
  flags.Add("prompt", "TEXT", "text to go on from", &options->prompt);
  flags.Add("prompt-ids", "IDS", "token ids to go on from, such as 1,2,3", &options->prompt_ids);
  flags.Add("chat", "FILE", "conversation to answer: JSON messages with role and content; - reads them from stdin",
            &options->chat);
  options->target.Declare(flags);
  options->generate.Declare(flags);
  flags.Add("logprobs", "K", "log-probability of each token and of the K likeliest", &options->logprobs);
  flags.Add("request-id", "ID", "names the request in logs and for Abort", &options->request_id);
  flags.AddSwitch("stream", "tokens as they come; --stream=false: all at the end", &options->stream);
  flags.AddSwitch("json", "one JSON object per message, names as in the proto", &options->json);
  return flags;
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const Options& options, std::istream& standard_input) {
  if (options.prompt.has_value() + options.prompt_ids.has_value() + options.chat.has_value() != 1) {
    return absl::InvalidArgumentError("expected exactly one of --prompt, --prompt-ids, --chat");
  }
  v1::GenerateRequest request;
  if (options.prompt.has_value()) request.set_text(*options.prompt);
  if (options.prompt_ids.has_value()) {
    request.mutable_token_ids()->mutable_ids()->Add(options.prompt_ids->begin(), options.prompt_ids->end());
  }
  if (options.chat.has_value()) {
    ASSIGN_OR_RETURN(*request.mutable_chat(), ReadChatFile(*options.chat, standard_input));
  }
  options.generate.Fill(request);
  request.set_request_id(options.request_id);
  if (!options.stream) request.set_stream(false);
  if (options.logprobs.has_value()) request.mutable_output()->set_logprobs(*options.logprobs);
  return request;
}

void PrintJson(const v1::GenerateResponse& response, std::ostream& out) {
  google::protobuf::util::JsonPrintOptions format;
  format.preserve_proto_field_names = true;
  std::string line;
  CHECK(google::protobuf::util::MessageToJsonString(response, &line, format).ok());
  out << line << "\n" << std::flush;
}

}  // namespace

int RunGenerate(const Arguments& arguments, Terminal& terminal) {
  Options options;
  const FlagParser flags = DeclareFlags(&options);
  if (const auto status = ParseOrExit(flags, arguments, terminal.out, terminal.err)) return *status;
  const absl::StatusOr<v1::GenerateRequest> request = MakeRequest(options, terminal.in);
  if (!request.ok()) {
    terminal.err << kProgram << ": " << std::string(request.status().message()) << "\nSee " << kProgram << " --help.\n";
    return kExitUsage;
  }

  InferenceClient client(options.target.client_options());
  AnswerPrinter printer(terminal);
  const absl::Status status =
      client.Generate(*request, options.target.call_options(), [&](const v1::GenerateResponse& response) {
        if (options.json) {
          PrintJson(response, terminal.out);
        } else {
          printer.Print(response);
        }
      });
  if (!status.ok()) {
    if (!printer.text().empty()) terminal.out << "\n";
    return ReportFailure(kProgram, status, terminal);
  }
  if (!options.json) printer.PrintSummary();
  return kExitOk;
}

}  // namespace trireme::client
