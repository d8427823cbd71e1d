#include <string>
#include <string_view>

#include "client/cli/command_set.h"
#include "client/cli/commands.h"

namespace trireme::client {
namespace {

constexpr Command kCommands[] = {
    {"generate", "streams the answer to a prompt", RunGenerate},
    {"chat", "talks with the model, turn by turn", RunChat},
    {"health", "asks whether a server is ready", RunHealth},
    {"bench", "measures a running server", RunBench},
    {"plan", "shows how a model would be cut, from its headers alone", RunPlan},
};

}  // namespace

int ReportUsage(std::string_view command, const absl::Status& status, Terminal& terminal) {
  terminal.err << command << ": " << std::string(status.message()) << "\nSee " << command << " --help.\n";
  return kExitUsage;
}

int ReportFailure(std::string_view command, const absl::Status& status, Terminal& terminal) {
  terminal.out.flush();
  terminal.err << command << ": " << absl::StatusCodeToString(status.code()) << ": " << std::string(status.message())
               << "\n";
  return kExitFailed;
}

int RunTrireme(const Arguments& arguments, Terminal& terminal) {
  return RunOneOf({"trireme", "the command line of Trireme", "command", kCommands}, arguments, terminal);
}

}  // namespace trireme::client
