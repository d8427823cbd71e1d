#include <unistd.h>

#include <iostream>

#include "client/cli/commands.h"

int main(int argc, char** argv) {
  trireme::client::Terminal terminal{
      .in = std::cin, .out = std::cout, .err = std::cerr, .is_interactive = isatty(STDIN_FILENO) == 1};
  const int exit_status = trireme::client::RunTrireme({argv + 1, argv + argc}, terminal);
  std::cout.flush();
  if (std::cout) return exit_status;
  std::cerr << "trireme: not all of the output could be written\n";
  return exit_status == trireme::client::kExitOk ? trireme::client::kExitFailed : exit_status;
}
