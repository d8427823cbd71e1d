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
#include "client/cli/generate_flags.h"
#include "client/inference_client.h"

namespace trireme::client {
namespace {

constexpr char kProgram[] = "trireme generate";

struct Options {
  std::optional<std::string> prompt;
  std::optional<std::vector<std::uint32_t>> prompt_ids;
  std::optional<std::string> chat;
  bool add_special_tokens = true;
  std::optional<std::uint32_t> truncate_prompt_tokens;
  TargetFlags target;
  GenerateFlags generate;
  OutputFlags output;
  bool json = false;
};

FlagParser DeclareFlags(Options* options) {
  FlagParser flags(kProgram, "streams the answer to a prompt; exactly one of --prompt, --prompt-ids, --chat");
  flags.Add("prompt", "TEXT", "text to go on from", &options->prompt);
  flags.Add("prompt-ids", "IDS", "token ids to go on from, such as 1,2,3", &options->prompt_ids);
  flags.Add("chat", "FILE", "conversation to answer: JSON messages with role and content; - reads them from stdin",
            &options->chat);
  flags.AddSwitch("add-special-tokens", "begin a text as the tokenizer does, with a BOS say",
                  &options->add_special_tokens);
  flags.Add("truncate-prompt-tokens", "N", "keep the last N tokens of a longer prompt",
            &options->truncate_prompt_tokens);
  flags.AddSwitch("json", "one JSON object per message, names as in the proto", &options->json);
  options->target.Declare(flags);
  options->generate.Declare(flags);
  options->output.Declare(flags);
  options->target.DeclareConnection(flags);
  return flags;
}

absl::Status FillPrompt(const Options& options, std::istream& standard_input, v1::GenerateRequest& request) {
  if (options.prompt.has_value() + options.prompt_ids.has_value() + options.chat.has_value() != 1) {
    return absl::InvalidArgumentError("expected exactly one of --prompt, --prompt-ids, --chat");
  }
  if (options.prompt.has_value()) request.set_text(*options.prompt);
  if (options.prompt_ids.has_value()) {
    request.mutable_token_ids()->mutable_ids()->Add(options.prompt_ids->begin(), options.prompt_ids->end());
  }
  if (options.chat.has_value()) {
    ASSIGN_OR_RETURN(*request.mutable_chat(), ReadChatFile(*options.chat, standard_input));
  }
  if (!options.add_special_tokens) request.set_add_special_tokens(false);
  if (options.truncate_prompt_tokens) request.set_truncate_prompt_tokens(*options.truncate_prompt_tokens);
  return absl::OkStatus();
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const Options& options, std::istream& standard_input) {
  v1::GenerateRequest request;
  RETURN_IF_ERROR(FillPrompt(options, standard_input, request));
  options.generate.Fill(request);
  options.output.Fill(request);
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
  if (!request.ok()) return ReportUsage(kProgram, request.status(), terminal);
  const absl::StatusOr<ClientOptions> client_options = options.target.ReadClientOptions();
  if (!client_options.ok()) return ReportUsage(kProgram, client_options.status(), terminal);

  InferenceClient client(*client_options);
  AnswerPrinter printer(terminal, options.output.n.value_or(1));
  const absl::Status status =
      client.Generate(*request, options.target.call_options(), [&](const v1::GenerateResponse& response) {
        if (options.json) {
          PrintJson(response, terminal.out);
        } else {
          printer.Print(response);
        }
      });
  if (!status.ok()) {
    printer.EndText();
    return ReportFailure(kProgram, status, terminal);
  }
  if (!options.json) printer.PrintSummary();
  return kExitOk;
}

}  // namespace trireme::client
