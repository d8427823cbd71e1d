#include "client/cli/command_set.h"

#include <algorithm>
#include <string>

#include "base/version.h"

namespace trireme::client {
namespace {

void PrintUsage(const CommandSet& set, std::ostream& out) {
  std::size_t width = 0;
  for (const Command& command : set.commands) width = std::max(width, command.name.size());
  out << set.program << ": " << set.summary << "\n\n";
  for (const Command& command : set.commands) {
    out << "  " << set.program << " " << command.name << std::string(width + 2 - command.name.size(), ' ')
        << command.summary << "\n";
  }
  out << "\nFlags:\n  --help     show this text; after a " << set.noun
      << ", its flags\n  --version  show the version\n";
}

}  // namespace

int RunOneOf(const CommandSet& set, const Arguments& arguments, Terminal& terminal) {
  if (arguments.empty()) {
    PrintUsage(set, terminal.err);
    return kExitUsage;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h") {
    PrintUsage(set, terminal.out);
    return kExitOk;
  }
  if (name == "--version") {
    terminal.out << "trireme " << BuildId() << "\n";
    return kExitOk;
  }
  for (const Command& command : set.commands) {
    if (command.name == name) return command.run({arguments.begin() + 1, arguments.end()}, terminal);
  }
  terminal.err << set.program << ": unknown " << (name.starts_with("-") ? "flag" : set.noun) << " \"" << name
               << "\"\nSee " << set.program << " --help.\n";
  return kExitUsage;
}

}  // namespace trireme::client
