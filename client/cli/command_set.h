// Commands that are picked by the first argument: those of `trireme`, and those of a command that has some of its own.
#pragma once
#include <span>
#include <string_view>

#include "client/cli/terminal.h"

namespace trireme::client {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments& arguments, Terminal& terminal);
};

struct CommandSet {
  std::string_view program;  // as the user types it: "trireme bench"
  std::string_view summary;
  std::string_view noun;  // what each of them is: "command"
  std::span<const Command> commands;
};

// Runs the command that the first argument names with the others, or answers --help and --version; returns the exit
// status, kExitUsage if there is no such command.
int RunOneOf(const CommandSet& set, const Arguments& arguments, Terminal& terminal);

}  // namespace trireme::client
