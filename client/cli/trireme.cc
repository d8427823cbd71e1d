#include <algorithm>
#include <string_view>

#include "base/version.h"
#include "client/cli/commands.h"

namespace trireme::client {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments& arguments, Terminal& terminal);
};

constexpr Command kCommands[] = {
    {"generate", "streams the answer to a prompt", RunGenerate},
    {"chat", "talks with the model, turn by turn", RunChat},
    {"health", "asks whether a server is ready", RunHealth},
    {"bench", "measures a running server", RunBench},
    {"plan", "shows how a model would be cut, from its headers alone", RunPlan},
};

void PrintUsage(std::ostream& out) {
  out << "trireme: the command line of Trireme\n\nCommands:\n";
  for (const Command& command : kCommands) {
    out << "  trireme " << command.name << std::string(10 - command.name.size(), ' ') << command.summary << "\n";
  }
  out << "\nFlags:\n  --help     show this text; after a command, its flags\n  --version  show the version\n";
}

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
  if (arguments.empty()) {
    PrintUsage(terminal.err);
    return kExitUsage;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h") {
    PrintUsage(terminal.out);
    return kExitOk;
  }
  if (name == "--version") {
    terminal.out << "trireme " << BuildId() << "\n";
    return kExitOk;
  }
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run({arguments.begin() + 1, arguments.end()}, terminal);
  }
  terminal.err << "trireme: unknown command \"" << name << "\"\nSee trireme --help.\n";
  return kExitUsage;
}

}  // namespace trireme::client
