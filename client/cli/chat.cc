// `trireme chat`.
#include "base/flags.h"
#include "client/cli/answer_printer.h"
#include "client/cli/call_flags.h"
#include "client/cli/commands.h"
#include "client/cli/generate_flags.h"
#include "client/cli/interrupt.h"
#include "client/inference_client.h"

namespace trireme::client {
namespace {

constexpr char kProgram[] = "trireme chat";

struct Options {
  TargetFlags target;
  GenerateFlags generate;
  std::string system;
};

FlagParser DeclareFlags(Options* options) {
  FlagParser flags(kProgram, "talks with the model, turn by turn; Ctrl-C ends an answer, Ctrl-D leaves");
  options->target.Declare(flags);
  flags.Add("system", "TEXT", "what the model is told first", &options->system);
  options->generate.Declare(flags);
  options->target.DeclareConnection(flags);
  return flags;
}

void AddMessage(v1::ChatInput& chat, const std::string& role, const std::string& content) {
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role(role);
  message.set_content(content);
}

// A conversation with one server.
class Conversation {
 public:
  Conversation(const Options& options, const ClientOptions& client_options, Terminal& terminal)
      : options_(options), terminal_(terminal), client_(client_options) {
    options_.generate.Fill(request_);
    if (!options_.system.empty()) AddMessage(*request_.mutable_chat(), "system", options_.system);
  }

  // Asks, prints the answer, and keeps both. An answer that was cut short by Ctrl-C counts; a question whose call
  // failed does not.
  absl::Status Ask(const std::string& question) {
    AddMessage(*request_.mutable_chat(), "user", question);
    Cancellation cancellation;
    interrupt_.SetHandler([&cancellation] { cancellation.Cancel(); });
    CallOptions call = options_.target.call_options();
    call.cancellation = &cancellation;
    AnswerPrinter printer(terminal_);
    const absl::Status status =
        client_.Generate(request_, call, [&](const v1::GenerateResponse& response) { printer.Print(response); });
    interrupt_.SetHandler(nullptr);
    if (!status.ok() && !cancellation.is_cancelled()) {
      request_.mutable_chat()->mutable_messages()->RemoveLast();
      return status;
    }
    printer.PrintSummary();
    AddMessage(*request_.mutable_chat(), "assistant", printer.text());
    return absl::OkStatus();
  }

 private:
  InterruptWatcher interrupt_;  // before the client, whose threads inherit its mask
  const Options options_;
  Terminal& terminal_;
  InferenceClient client_;
  v1::GenerateRequest request_;
};

}  // namespace

int RunChat(const Arguments& arguments, Terminal& terminal) {
  Options options;
  const FlagParser flags = DeclareFlags(&options);
  if (const auto status = ParseOrExit(flags, arguments, terminal.out, terminal.err)) return *status;
  const absl::StatusOr<ClientOptions> client_options = options.target.ReadClientOptions();
  if (!client_options.ok()) return ReportUsage(kProgram, client_options.status(), terminal);
  Conversation conversation(options, *client_options, terminal);
  int exit_status = kExitOk;
  std::string line;
  while (true) {
    if (terminal.is_interactive) terminal.out << "> " << std::flush;
    if (!std::getline(terminal.in, line)) break;
    if (line.empty()) continue;
    const absl::Status status = conversation.Ask(line);
    exit_status = status.ok() ? kExitOk : ReportFailure(kProgram, status, terminal);
  }
  if (terminal.is_interactive) terminal.out << "\n";
  return exit_status;
}

}  // namespace trireme::client
